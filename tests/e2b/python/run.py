"""Drives a host with the unmodified `e2b` SDK for Python.

Usage: run.py [--style sync|async] [--only WORD] [--list]
The SDK finds the host by its own variables (`E2B_API_URL` and `E2B_SANDBOX_URL`, or `E2B_DOMAIN` and
`SSL_CERT_FILE`), as in any program. Prints one line a case, `PASS NAME`, `FAIL NAME` or
`SKIP NAME (REASON)`, then a line with the counts. Fails when a case fails, or when none ran.
`SANDBAR_SDK_REPORT` names a file to append a line with the counts to, for scripts/sdk-table.py.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
import traceback
from importlib.metadata import version

import cases
import sdk


async def attempt(case, style):
    """Runs one case, in a new sandbox unless it creates its own."""
    world = sdk.World(style)
    try:
        if case.needs_sandbox:
            await case.body(world, await world.create())
        else:
            await case.body(world)
    finally:
        await world.clean_up()


def too_late(*_):
    raise TimeoutError("the case did not end in time")


async def run_all(chosen, style):
    """Runs cases in one event loop: old SDKs keep connections for the life of the process."""
    passed = failed = skipped = 0
    # The signal interrupts blocking calls of the sync SDK; the event loop has its own timeout.
    signal.signal(signal.SIGALRM, too_late)
    for case in chosen:
        if obstacle := case.obstacle(sdk.VERSION):
            skipped += 1
            print(f"SKIP {case.name} ({obstacle})", flush=True)
            continue
        began = time.monotonic()
        try:
            if style == "sync":
                signal.alarm(int(case.timeout))
            await asyncio.wait_for(attempt(case, style), case.timeout)
        except KeyboardInterrupt:
            raise
        except BaseException:  # The other cases run after any failure.
            failed += 1
            print(f"FAIL {case.name} ({time.monotonic() - began:.2f} s)", flush=True)
            traceback.print_exc(file=sys.stdout)
        else:
            passed += 1
            print(f"PASS {case.name} ({time.monotonic() - began:.2f} s)", flush=True)
        finally:
            signal.alarm(0)
    return passed, failed, skipped


def report(style, counts):
    """Appends a line to the report, if one is configured."""
    if path := os.environ.get("SANDBAR_SDK_REPORT"):
        with open(path, "a") as file:
            print("python", version("e2b"), sdk.MODE, style, *counts, sep="\t", file=file)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--style", choices=["sync", "async"], default="sync")
    arguments.add_argument("--only", default="")
    arguments.add_argument("--list", action="store_true")
    arguments = arguments.parse_args()
    chosen = [case for case in cases.ALL if arguments.only in case.name]
    if arguments.list:
        print("\n".join(case.name for case in chosen))
        return 0
    counts = passed, failed, skipped = asyncio.run(run_all(chosen, arguments.style))
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    if not arguments.only:
        report(arguments.style, counts)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # The transport of SDK 2.45 sometimes aborts the interpreter at exit.
    os._exit(code)
