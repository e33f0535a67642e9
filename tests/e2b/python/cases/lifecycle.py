"""Timeouts, pause and resume."""

import asyncio
import datetime

import e2b
from cases import case
from sdk import do, fails, until


def pause(sandbox):
    return (getattr(sandbox, "pause", None) or sandbox.beta_pause)()


@case()
async def a_timeout_is_changed(world, sandbox):
    await do(sandbox.set_timeout(3000))
    info = await do(sandbox.get_info())
    left = info.end_at - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(seconds=2900) < left < datetime.timedelta(seconds=3010), left


@case(needs_sandbox=False)
async def a_sandbox_ends_when_its_timeout_expires(world):
    sandbox = await world.create(timeout=2)
    await until(lambda: not_running(sandbox), "it ends", 20)
    await fails(e2b.SandboxException, lambda: sandbox.commands.run("true"))


async def not_running(sandbox):
    return not await do(sandbox.is_running())


@case()
async def a_shorter_timeout_ends_the_sandbox_sooner(world, sandbox):
    await do(sandbox.set_timeout(1))
    await until(lambda: not_running(sandbox), "it ends", 20)


@case()
async def connecting_only_extends_the_timeout(world, sandbox):
    before = (await do(sandbox.get_info())).end_at
    await do(world.Sandbox.connect(sandbox.sandbox_id, timeout=5))
    assert abs(((await do(sandbox.get_info())).end_at - before).total_seconds()) < 2
    await do(world.Sandbox.connect(sandbox.sandbox_id, timeout=900))
    assert ((await do(sandbox.get_info())).end_at - before).total_seconds() > 600


@case()
async def files_survive_a_pause(world, sandbox):
    await do(sandbox.files.write("kept.txt", "kept"))
    await do(pause(sandbox))
    assert (await do(sandbox.get_info())).state == e2b.SandboxState.PAUSED
    assert await do(sandbox.is_running()) is False
    again = await do(world.Sandbox.connect(sandbox.sandbox_id))
    assert await do(again.files.read("kept.txt")) == "kept"


@case()
async def commands_continue_after_a_pause(world, sandbox):
    handle = await do(sandbox.commands.run("for i in $(seq 1000); do echo $i >> ticks; sleep 0.05; done", background=True))
    await until(lambda: sandbox.files.exists("ticks"), "the first tick")
    await do(pause(sandbox))
    await asyncio.sleep(0.5)
    sandbox = await do(world.Sandbox.connect(sandbox.sandbox_id))
    seen = len((await do(sandbox.files.read("ticks"))).splitlines())

    async def more():
        return len((await do(sandbox.files.read("ticks"))).splitlines()) > seen + 3

    await until(more, "more ticks")
    assert handle.pid in [process.pid for process in await do(sandbox.commands.list())]


@case(timeout=400)
async def state_survives_fifty_pauses(world, sandbox):
    for cycle in range(50):
        await do(sandbox.files.write(f"cycle/{cycle}", f"content {cycle}"))
        await do(sandbox.commands.run(f"echo {cycle} >> cycle/log"))
        await do(pause(sandbox))
        sandbox = await do(world.Sandbox.connect(sandbox.sandbox_id))
    for cycle in range(50):
        assert await do(sandbox.files.read(f"cycle/{cycle}")) == f"content {cycle}"
    assert (await do(sandbox.files.read("cycle/log"))).split() == [str(cycle) for cycle in range(50)]


@case()
async def pausing_twice_is_not_an_error(world, sandbox):
    await do(pause(sandbox))
    assert not await do(pause(sandbox))


@case()
async def a_paused_sandbox_can_be_killed(world, sandbox):
    await do(pause(sandbox))
    assert await do(sandbox.kill()) is True
    await fails(e2b.SandboxException, lambda: world.Sandbox.connect(sandbox.sandbox_id), "not found")


@case(needs_sandbox=False, since=(2, 20))
async def a_sandbox_is_paused_when_its_timeout_expires(world):
    sandbox = await world.create(timeout=2, lifecycle={"on_timeout": "pause"})
    await do(sandbox.files.write("kept.txt", "kept"))
    await until(lambda: not_running(sandbox), "it pauses", 20)
    assert (await do(sandbox.get_info())).state == e2b.SandboxState.PAUSED
    again = await do(world.Sandbox.connect(sandbox.sandbox_id, timeout=60))
    assert await do(again.files.read("kept.txt")) == "kept"


@case(needs_sandbox=False, since=(2, 20))
async def a_request_resumes_a_paused_sandbox(world):
    sandbox = await world.create(timeout=2, lifecycle={"on_timeout": "pause", "auto_resume": True})
    await do(sandbox.files.write("kept.txt", "kept"))

    async def is_paused():
        return (await do(sandbox.get_info())).state == e2b.SandboxState.PAUSED

    await until(is_paused, "it pauses", 20)
    assert (await do(sandbox.commands.run("cat kept.txt"))).stdout == "kept"
