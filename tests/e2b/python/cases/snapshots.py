"""Snapshots that become templates, and forks."""

import e2b
from cases import case
from sdk import do, fails


@case(since=(2, 14))
async def a_snapshot_is_a_template(world, sandbox):
    await do(sandbox.files.write("state.txt", "then"))
    snapshot = await do(sandbox.create_snapshot())
    await do(sandbox.files.write("state.txt", "now"))
    copy = await world.create(snapshot.snapshot_id)
    assert await do(copy.files.read("state.txt")) == "then"
    assert await do(sandbox.files.read("state.txt")) == "now"


@case(since=(2, 14))
async def a_snapshot_outlives_its_sandbox(world, sandbox):
    await do(sandbox.files.write("state.txt", "kept"))
    snapshot = await do(sandbox.create_snapshot())
    await do(sandbox.kill())
    copy = await world.create(snapshot.snapshot_id)
    assert await do(copy.files.read("state.txt")) == "kept"


@case(since=(2, 14))
async def snapshots_are_listed_and_deleted(world, sandbox):
    snapshot = await do(sandbox.create_snapshot())
    listed = await world.all_of(world.Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id))
    assert [one.snapshot_id for one in listed] == [snapshot.snapshot_id]
    assert await do(world.Sandbox.delete_snapshot(snapshot.snapshot_id)) is True
    assert await do(world.Sandbox.delete_snapshot(snapshot.snapshot_id)) is False
    await fails(e2b.SandboxException, lambda: world.Sandbox.create(snapshot.snapshot_id))


@case(since=(2, 34))
async def a_sandbox_is_forked(world, sandbox):
    await do(sandbox.files.write("state.txt", "before"))
    forks = await do(sandbox.fork(count=3))
    for number, fork in enumerate(forks):
        world.keep(fork)
        assert await do(fork.files.read("state.txt")) == "before"
        await do(fork.files.write("state.txt", f"fork {number}"))
    assert await do(sandbox.files.read("state.txt")) == "before"
    assert [await do(fork.files.read("state.txt")) for fork in forks] == [f"fork {number}" for number in range(3)]
