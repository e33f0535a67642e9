"""Failures raise the documented class, at once."""

import asyncio
import threading

import e2b
from cases import case
from sdk import TIMEOUTS, do, fails


async def killed_meanwhile(world, sandbox, call):
    """Makes a call, and kills the sandbox while it runs."""
    kill = lambda: world.Sandbox.kill(sandbox.sandbox_id)
    if world.is_async:
        async def later():
            await asyncio.sleep(1)
            await kill()

        killer = asyncio.create_task(later())
        try:
            return await fails(e2b.SandboxException, call)
        finally:
            await killer
    timer = threading.Timer(1, kill)
    timer.start()
    try:
        return await fails(e2b.SandboxException, call)
    finally:
        timer.join()


@case(since=(2, 30), why="a stream that breaks off raises an error of httpcore's before", timeout=30)
async def a_sandbox_killed_during_a_command_is_an_error(world, sandbox):
    await killed_meanwhile(world, sandbox, lambda: sandbox.commands.run("sleep 60", timeout=0))


@case(timeout=30)
async def a_command_in_a_killed_sandbox_is_an_error(world, sandbox):
    await do(sandbox.kill())
    await fails(e2b.SandboxException, lambda: sandbox.commands.run("true"))


@case(timeout=30)
async def a_file_of_a_killed_sandbox_is_an_error(world, sandbox):
    await do(sandbox.kill())
    await fails(e2b.SandboxException, lambda: sandbox.files.read("a"))
    await fails(e2b.SandboxException, lambda: sandbox.files.list("/"))


@case()
async def a_full_disk_is_not_enough_space(world, sandbox):
    # The tests start the host with a quota of 200 MB per sandbox.
    await do(sandbox.commands.run("head -c 150000000 /dev/urandom > fill && sync fill"))
    await fails(e2b.NotEnoughSpaceException, lambda: sandbox.files.write("large", b"x" * 90_000_000, request_timeout=60))
    await do(sandbox.files.write("small", "still works"))


@case(needs=TIMEOUTS, timeout=30)
async def a_request_that_takes_too_long_times_out(world, sandbox):
    await fails(e2b.TimeoutException, lambda: sandbox.commands.run("sleep 20", timeout=1))
