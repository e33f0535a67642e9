"""Drives a host with the unmodified `e2b` SDK for Python.

Usage: run.py [--style sync|async] [--only WORD] [--list]
The SDK finds the host by its own variables (`E2B_API_URL` and `E2B_SANDBOX_URL`, or `E2B_DOMAIN` and `SSL_CERT_FILE`), as
in anybody's program. One line a case, `PASS NAME` or `FAIL NAME`, then a line with the counts. It fails when a case does, and
when none ran.
"""

import argparse
import asyncio
import sys
import time
import traceback

import cases
import sdk


async def attempt(case, style):
    """Runs one case in a sandbox of its own, unless it makes its own."""
    world = sdk.World(style)
    try:
        if case.needs_sandbox:
            await case.body(world, await world.create())
        else:
            await case.body(world)
    finally:
        await world.clean_up()


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
    passed = failed = skipped = 0
    for case in chosen:
        if not case.offered_by(sdk.VERSION):
            skipped += 1
            print(f"SKIP {case.name} (e2b {sdk.VERSION} does not have it)", flush=True)
            continue
        began = time.monotonic()
        try:
            asyncio.run(asyncio.wait_for(attempt(case, arguments.style), case.patience))
        except sdk.NotOffered as why:
            skipped += 1
            print(f"SKIP {case.name} ({why})", flush=True)
        except BaseException as error:  # Whatever it was, the other cases are to run.
            if isinstance(error, KeyboardInterrupt):
                raise
            failed += 1
            print(f"FAIL {case.name}", flush=True)
            traceback.print_exc(file=sys.stdout)
        else:
            passed += 1
            print(f"PASS {case.name} ({time.monotonic() - began:.2f} s)", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
