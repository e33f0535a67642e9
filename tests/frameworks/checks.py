"""Checks of the drivers in Python: a line for each, and an exception for the first failure."""

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
    """Retries a request to a server in a sandbox until it is answered."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
