"""The two faces of the SDK behind one: a case is written once, and runs with `Sandbox` and with `AsyncSandbox`."""

import dataclasses
import inspect
import os
import subprocess
import typing
import uuid
from importlib.metadata import version

import e2b


def numbers(package):
    """The version of a package, as far as cases distinguish."""
    return tuple(int(part) for part in version(package).split(".")[:2])


VERSION = numbers("e2b")
MODE = "domain" if os.environ.get("E2B_DOMAIN") else "plain"


@dataclasses.dataclass
class Condition:
    """What a case takes beside a version of the SDK, known before it runs. Without it the case is skipped, and says why."""

    holds: typing.Callable
    otherwise: str


NAMES = Condition(lambda: MODE == "domain", "plain mode has no names of ports")
TIMEOUTS = Condition(lambda: VERSION != (2, 20), "2.20 raises a timeout of httpcore's, by a race inside the SDK")
INTERPRETER = Condition(
    lambda: MODE == "domain" or numbers("e2b-code-interpreter") >= (2, 9),
    "e2b-code-interpreter before 2.9 ignores E2B_SANDBOX_URL",
)
# Sandboxes of the tests have the programs of this machine.
CHARTS = Condition(
    lambda: INTERPRETER.holds() and subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], stderr=-3).returncode == 0,
    "/usr/bin/python3 has no matplotlib, or " + INTERPRETER.otherwise,
)


async def do(value):
    """What a call of the SDK gives, whichever face made it."""
    return await value if inspect.isawaitable(value) else value


class World:
    """The SDK in one style, and the sandboxes a case made with it."""

    def __init__(self, style):
        self.is_async = style == "async"
        self.Sandbox = e2b.AsyncSandbox if self.is_async else e2b.Sandbox
        self.Template = getattr(e2b, "AsyncTemplate" if self.is_async else "Template", None)
        self.made = []
        self.mark = uuid.uuid4().hex

    async def create(self, *arguments, **options):
        """A sandbox that is killed when the case is over."""
        options.setdefault("timeout", 120)
        return self.keep(await do(self.Sandbox.create(*arguments, **options)))

    def keep(self, sandbox):
        self.made.append(sandbox)
        return sandbox

    async def all_of(self, paginator):
        """Everything a paginator gives."""
        found = []
        while True:
            found += await do(paginator.next_items())
            if not paginator.has_next:
                return found

    async def clean_up(self):
        for sandbox in self.made:
            try:
                await do(sandbox.kill())
            except Exception:  # It may be gone, and the case has said what it thinks of that.
                pass


async def fails(kind, call, *words):
    """Demands that a call raises this class, in words that say why."""
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
    """Waits for something to become true."""
    import asyncio
    import time

    end = time.monotonic() + seconds
    while True:
        value = await do(condition())
        if value:
            return value
        assert time.monotonic() < end, f"never: {what}"
        await asyncio.sleep(0.05)
