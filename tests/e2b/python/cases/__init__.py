"""What a user does, one function a case, one file a subject."""

import dataclasses
import importlib
import typing

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
    patience: float

    def offered_by(self, version):
        return version >= self.since


def case(needs_sandbox=True, since=(2, 7), patience=120):
    """Makes a function a case; its name says what the user does."""

    def register(body):
        subject = body.__module__.rsplit(".", 1)[-1]
        ALL.append(Case(f"{subject}.{body.__name__}", body, needs_sandbox, since, patience))
        return body

    return register


for subject in SUBJECTS:
    importlib.import_module(f"cases.{subject}")
