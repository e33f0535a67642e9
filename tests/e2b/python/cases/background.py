"""Background commands."""

import asyncio

import e2b
from cases import case
from sdk import do, fails, until


@case()
async def a_background_command_is_waited_for(world, sandbox):
    handle = await do(sandbox.commands.run("sleep 0.3; echo done", background=True))
    assert handle.pid > 0
    result = await do(handle.wait())
    assert (result.stdout, result.exit_code) == ("done\n", 0)


@case()
async def waiting_for_a_failed_background_command_raises_its_code(world, sandbox):
    handle = await do(sandbox.commands.run("echo x; exit 5", background=True))
    error = await fails(e2b.CommandExitException, lambda: handle.wait())
    assert error.exit_code == 5


@case()
async def running_commands_are_listed(world, sandbox):
    handle = await do(sandbox.commands.run("sleep 60", background=True, envs={"A": "1"}, cwd="/tmp"))
    found = [process for process in await do(sandbox.commands.list()) if process.pid == handle.pid]
    assert len(found) == 1 and "sleep 60" in " ".join(found[0].args), found
    assert found[0].envs.get("A") == "1" and found[0].cwd == "/tmp", found


@case()
async def a_command_is_killed_by_its_handle(world, sandbox):
    handle = await do(sandbox.commands.run("sleep 60", background=True))
    assert await do(handle.kill()) is True
    await fails(e2b.CommandExitException, lambda: handle.wait())
    assert handle.pid not in [process.pid for process in await do(sandbox.commands.list())]


@case()
async def a_command_is_killed_by_its_pid(world, sandbox):
    handle = await do(sandbox.commands.run("sleep 60", background=True))
    assert await do(sandbox.commands.kill(handle.pid)) is True


@case()
async def killing_an_unknown_pid_returns_false(world, sandbox):
    assert await do(sandbox.commands.kill(999999)) is False


@case()
async def a_command_survives_its_connection(world, sandbox):
    handle = await do(sandbox.commands.run("for i in $(seq 200); do echo tick $i; sleep 0.05; done", background=True))
    await do(handle.disconnect())
    again = await do(sandbox.commands.connect(handle.pid))
    assert again.pid == handle.pid
    await do(again.kill())


@case()
async def a_command_is_reconnected_to(world, sandbox):
    handle = await do(sandbox.commands.run("sleep 1; echo late; exit 0", background=True))
    await do(handle.disconnect())
    again = await do(sandbox.commands.connect(handle.pid))
    result = await do(again.wait())
    assert (result.stdout, result.exit_code) == ("late\n", 0), result


@case()
async def connecting_to_an_unknown_pid_is_not_found(world, sandbox):
    await fails(e2b.NotFoundException, lambda: sandbox.commands.connect(999999))


@case()
async def input_is_read(world, sandbox):
    handle = await do(sandbox.commands.run("read line; echo got $line", background=True, stdin=True))
    await do(sandbox.commands.send_stdin(handle.pid, "hello\n"))
    assert (await do(handle.wait())).stdout == "got hello\n"


@case()
async def much_input_is_read_in_order(world, sandbox):
    handle = await do(sandbox.commands.run("head -n 200 | md5sum; echo end", background=True, stdin=True))
    lines = [f"line {number} {'x' * 500}\n" for number in range(200)]
    for line in lines:
        await do(sandbox.commands.send_stdin(handle.pid, line))
    import hashlib

    assert hashlib.md5("".join(lines).encode()).hexdigest() in (await do(handle.wait())).stdout


@case()
async def input_for_an_unknown_pid_is_not_found(world, sandbox):
    await fails(e2b.NotFoundException, lambda: sandbox.commands.send_stdin(999999, "x"))


@case(since=(2, 30))
async def the_end_of_input_is_sent(world, sandbox):
    handle = await do(sandbox.commands.run("cat; echo over", background=True, stdin=True))
    await do(handle.send_stdin("words\n") if hasattr(handle, "send_stdin") else sandbox.commands.send_stdin(handle.pid, "words\n"))
    await do(handle.close_stdin() if hasattr(handle, "close_stdin") else sandbox.commands.close_stdin(handle.pid))
    assert (await do(handle.wait())).stdout == "words\nover\n"


@case()
async def a_server_keeps_running_beside_other_commands(world, sandbox):
    await do(sandbox.commands.run("python3 -m http.server 8123 --bind 127.0.0.1", background=True))

    async def answers():
        try:
            return (await do(sandbox.commands.run("curl -sf http://127.0.0.1:8123/ >/dev/null && echo yes"))).stdout
        except e2b.CommandExitException:
            return False

    await until(answers, "the server answers")


@case()
async def a_hundred_commands_run_at_once(world, sandbox):
    run = lambda number: do(sandbox.commands.run(f"sleep 0.2; echo {number}"))
    if world.is_async:
        results = await asyncio.gather(*[run(number) for number in range(100)])
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(100) as pool:
            results = list(pool.map(lambda number: sandbox.commands.run(f"sleep 0.2; echo {number}"), range(100)))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(100)]
