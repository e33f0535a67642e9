"""Terminals."""

import e2b
from cases import case
from sdk import do, until


async def open_terminal(world, sandbox, received, **options):
    size = e2b.PtySize(rows=24, cols=80)
    if world.is_async:
        return await sandbox.pty.create(size, on_data=lambda data: received.append(bytes(data)), **options)
    return sandbox.pty.create(size, **options)


async def listen(world, handle, received):
    if world.is_async:
        try:
            await handle.wait()
        except e2b.CommandExitException:
            pass
        return
    try:
        handle.wait(on_pty=lambda data: received.append(bytes(data)))
    except e2b.CommandExitException:
        pass


@case()
async def a_terminal_reads_input(world, sandbox):
    received = []
    handle = await open_terminal(world, sandbox, received)
    await do(sandbox.pty.send_stdin(handle.pid, b"echo $((6*7))\nexit\n"))
    await listen(world, handle, received)
    assert b"42" in b"".join(received), received


@case()
async def a_terminal_has_its_size(world, sandbox):
    received = []
    handle = await open_terminal(world, sandbox, received)
    await do(sandbox.pty.send_stdin(handle.pid, b"stty size\nexit\n"))
    await listen(world, handle, received)
    assert b"24 80" in b"".join(received), received


@case()
async def a_terminal_is_resized(world, sandbox):
    received = []
    handle = await open_terminal(world, sandbox, received)
    await do(sandbox.pty.resize(handle.pid, e2b.PtySize(rows=40, cols=100)))
    await do(sandbox.pty.send_stdin(handle.pid, b"stty size\nexit\n"))
    await listen(world, handle, received)
    assert b"40 100" in b"".join(received), received


@case()
async def a_terminal_is_killed(world, sandbox):
    handle = await open_terminal(world, sandbox, [])
    assert await do(sandbox.pty.kill(handle.pid)) is True

    async def is_gone():
        return handle.pid not in [process.pid for process in await do(sandbox.commands.list())]

    await until(is_gone, "it is gone")


@case()
async def a_terminal_has_variables_and_a_directory(world, sandbox):
    received = []
    handle = await open_terminal(world, sandbox, received, envs={"FOO": "bar"}, cwd="/tmp")
    await do(sandbox.pty.send_stdin(handle.pid, b"echo [$FOO] [$PWD]\nexit\n"))
    await listen(world, handle, received)
    assert b"[bar] [/tmp]" in b"".join(received), received
