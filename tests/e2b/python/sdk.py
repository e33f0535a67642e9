"""One interface to `Sandbox` and `AsyncSandbox`: a case is written once and runs with both."""

import dataclasses
import inspect
import os
import subprocess
import typing
import uuid
from importlib.metadata import version

import e2b


def numbers(package):
    """Returns major and minor version of a package."""
    return tuple(int(part) for part in version(package).split(".")[:2])


VERSION = numbers("e2b")
MODE = "domain" if os.environ.get("E2B_DOMAIN") else "plain"


@dataclasses.dataclass
class Condition:
    """Requirement of a case besides the SDK version, checked before it runs; else it is skipped."""

    holds: typing.Callable
    otherwise: str


NAMES = Condition(lambda: MODE == "domain", "plain mode has no host names of ports")
TIMEOUTS = Condition(lambda: VERSION != (2, 20), "2.20 raises a timeout of httpcore's, by a race inside the SDK")
INTERPRETER = Condition(
    lambda: MODE == "domain" or numbers("e2b-code-interpreter") >= (2, 9),
    "e2b-code-interpreter before 2.9 ignores E2B_SANDBOX_URL",
)
# Sandboxes of the tests share the programs of this machine.
CHARTS = Condition(
    lambda: INTERPRETER.holds() and subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], stderr=-3).returncode == 0,
    "/usr/bin/python3 has no matplotlib, or " + INTERPRETER.otherwise,
)


async def do(value):
    """Returns the result of a call, sync or async."""
    return await value if inspect.isawaitable(value) else value


class World:
    """The SDK in one style, and the sandboxes that a case has created."""

    def __init__(self, style):
        self.is_async = style == "async"
        self.Sandbox = e2b.AsyncSandbox if self.is_async else e2b.Sandbox
        self.Template = getattr(e2b, "AsyncTemplate" if self.is_async else "Template", None)
        self.made = []
        self.mark = uuid.uuid4().hex

    async def create(self, *arguments, **options):
        """Creates a sandbox that is killed at the end of the case."""
        options.setdefault("timeout", 120)
        return self.keep(await do(self.Sandbox.create(*arguments, **options)))

    def keep(self, sandbox):
        self.made.append(sandbox)
        return sandbox

    async def all_of(self, paginator):
        """Returns the items of all pages."""
        found = []
        while True:
            found += await do(paginator.next_items())
            if not paginator.has_next:
                return found

    async def clean_up(self):
        for sandbox in self.made:
            try:
                await do(sandbox.kill())
            except Exception:  # The case may have killed it.
                pass


async def fails(kind, call, *words):
    """Asserts that a call raises this class, with a message that has these words."""
    try:
        value = await do(call() if callable(call) else call)
    except kind as error:
        for word in words:
            assert word.lower() in str(error).lower(), f"{word!r} is not in {error!r}"
        return error
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} instead of {kind.__name__}: {error}") from error
    raise AssertionError(f"no {kind.__name__}, but {value!r}")


async def until(condition, what, seconds=15):
    """Polls a condition until it holds."""
    import asyncio
    import time

    end = time.monotonic() + seconds
    while True:
        value = await do(condition())
        if value:
            return value
        assert time.monotonic() < end, f"never: {what}"
        await asyncio.sleep(0.05)
