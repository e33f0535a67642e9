"""What a user does, one function a case, one file a subject."""

import dataclasses
import importlib
import typing

import sdk

ALL = []
SUBJECTS = [
    "sandboxes", "lifecycle", "commands", "background", "terminals", "files", "contents", "signed", "watching", "ports",
    "snapshots", "users", "network", "trouble", "many", "interpreter", "templates",
]


@dataclasses.dataclass
class Case:
    name: str
    body: typing.Callable
    needs_sandbox: bool
    since: tuple
    why: str
    needs: sdk.Condition | None
    timeout: float

    def obstacle(self, version):
        """Why the case cannot be tried with this SDK in this mode; nothing when it can."""
        if version < self.since:
            return f"since {'.'.join(map(str, self.since))}: {self.why}"
        if self.needs and not self.needs.holds():
            return self.needs.otherwise
        return None


def case(needs_sandbox=True, since=(2, 7), why="the SDK does not have it before", needs=None, timeout=120):
    """Makes a function a case; its name says what the user does. `since` is the first SDK version it is for."""

    def register(body):
        subject = body.__module__.rsplit(".", 1)[-1]
        ALL.append(Case(f"{subject}.{body.__name__}", body, needs_sandbox, since, why, needs, timeout))
        return body

    return register


for subject in SUBJECTS:
    importlib.import_module(f"cases.{subject}")
