"""The checks of the drivers in Python: one line each, and an exception for the first that fails."""

import time
import urllib.error


def check(what, holds, seen=None):
    if not holds:
        raise AssertionError(f"{what}: saw {seen!r}")
    print(f"ok: {what}", flush=True)


def check_equal(what, seen, wanted):
    check(what, seen == wanted, seen)


def check_contains(what, text, *parts):
    check(what, all(part in text for part in parts), text)


def eventually(ask):
    """Asks a server in a sandbox until it answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
