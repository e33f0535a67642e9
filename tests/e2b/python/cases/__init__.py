"""Cases: one function each, named after what a user does; one file per subject."""

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
        """Returns why the case cannot run with this SDK in this mode; None if it can."""
        if version < self.since:
            return f"since {'.'.join(map(str, self.since))}: {self.why}"
        if self.needs and not self.needs.holds():
            return self.needs.otherwise
        return None


def case(needs_sandbox=True, since=(2, 7), why="the SDK does not have it before", needs=None, timeout=120):
    """Registers a function as a case. `since` is the first SDK version that it applies to."""

    def register(body):
        subject = body.__module__.rsplit(".", 1)[-1]
        ALL.append(Case(f"{subject}.{body.__name__}", body, needs_sandbox, since, why, needs, timeout))
        return body

    return register


for subject in SUBJECTS:
    importlib.import_module(f"cases.{subject}")
