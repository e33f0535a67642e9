"""Creating, finding and connecting to sandboxes."""

import datetime

import e2b
from cases import case
from sdk import do, fails


@case()
async def a_new_sandbox_runs(world, sandbox):
    assert await do(sandbox.is_running())
    assert sandbox.sandbox_id.isalnum()


@case()
async def a_killed_sandbox_does_not_run(world, sandbox):
    assert await do(sandbox.kill()) is True
    assert await do(sandbox.is_running()) is False


@case()
async def killing_twice_returns_false(world, sandbox):
    await do(sandbox.kill())
    assert await do(world.Sandbox.kill(sandbox.sandbox_id)) is False


@case(needs_sandbox=False)
async def killing_an_unknown_sandbox_returns_false(world):
    assert await do(world.Sandbox.kill("nosuchsandbox")) is False


@case(needs_sandbox=False)
async def metadata_is_returned(world):
    sandbox = await world.create(metadata={"mark": world.mark, "über": "naïve & =?"})
    info = await do(sandbox.get_info())
    assert info.metadata == {"mark": world.mark, "über": "naïve & =?"}, info.metadata


@case()
async def info_has_id_template_and_times(world, sandbox):
    info = await do(sandbox.get_info())
    assert info.sandbox_id == sandbox.sandbox_id
    assert info.template_id and info.state == e2b.SandboxState.RUNNING
    left = info.end_at - info.started_at
    assert datetime.timedelta(seconds=100) < left <= datetime.timedelta(seconds=125), left


@case()
async def another_client_connects_by_id(world, sandbox):
    await do(sandbox.files.write("a.txt", "from one"))
    other = await do(world.Sandbox.connect(sandbox.sandbox_id))
    assert await do(other.files.read("a.txt")) == "from one"


@case(needs_sandbox=False)
async def connecting_to_an_unknown_sandbox_is_not_found(world):
    await fails(e2b.SandboxException, lambda: world.Sandbox.connect("nosuchsandbox"), "not found")


@case(needs_sandbox=False)
async def a_sandbox_is_listed_by_its_metadata(world):
    one = await world.create(metadata={"mark": world.mark, "n": "1"})
    two = await world.create(metadata={"mark": world.mark, "n": "2"})
    find = lambda **metadata: world.all_of(world.Sandbox.list(query=e2b.SandboxQuery(metadata=metadata)))
    assert {info.sandbox_id for info in await find(mark=world.mark)} == {one.sandbox_id, two.sandbox_id}
    assert [info.sandbox_id for info in await find(mark=world.mark, n="2")] == [two.sandbox_id]
    assert await find(mark="another") == []


@case(needs_sandbox=False)
async def metadata_with_special_characters_is_found(world):
    value = "a b&c=d/é%20"
    sandbox = await world.create(metadata={"odd": value + world.mark})
    found = await world.all_of(world.Sandbox.list(query=e2b.SandboxQuery(metadata={"odd": value + world.mark})))
    assert [info.sandbox_id for info in found] == [sandbox.sandbox_id]


@case(needs_sandbox=False)
async def a_list_is_paged(world):
    made = {(await world.create(metadata={"mark": world.mark})).sandbox_id for _ in range(5)}
    paginator = world.Sandbox.list(query=e2b.SandboxQuery(metadata={"mark": world.mark}), limit=2)
    pages = []
    while paginator.has_next:
        pages.append([info.sandbox_id for info in await do(paginator.next_items())])
    assert [len(page) for page in pages] == [2, 2, 1], pages
    assert {one for page in pages for one in page} == made


@case(needs_sandbox=False)
async def a_list_is_filtered_by_state(world):
    running = await world.create(metadata={"mark": world.mark})
    paused = await world.create(metadata={"mark": world.mark})
    await do((getattr(paused, "pause", None) or paused.beta_pause)())
    for state, sandbox in [(e2b.SandboxState.RUNNING, running), (e2b.SandboxState.PAUSED, paused)]:
        query = e2b.SandboxQuery(metadata={"mark": world.mark}, state=[state])
        found = await world.all_of(world.Sandbox.list(query=query))
        assert [info.sandbox_id for info in found] == [sandbox.sandbox_id], state


@case(needs_sandbox=False)
async def an_unknown_template_is_an_error(world):
    await fails(e2b.SandboxException, lambda: world.Sandbox.create("no-such-template"), "no-such-template")


@case(needs_sandbox=False)
async def commands_have_variables_of_the_sandbox(world):
    sandbox = await world.create(envs={"FOO": "bar", "EMPTY": ""})
    assert (await do(sandbox.commands.run("echo $FOO-${EMPTY-unset}"))).stdout == "bar-\n"


@case()
async def metrics_report_resource_usage(world, sandbox):
    from sdk import until

    measured = await until(lambda: sandbox.get_metrics(), "metrics", 30)
    assert measured[0].cpu_count >= 1 and measured[0].mem_total > 0 and measured[0].disk_total > 0


@case(needs_sandbox=False)
async def a_wrong_key_is_an_authentication_error(world):
    await fails(e2b.AuthenticationException, lambda: world.Sandbox.create(api_key="e2b_" + "0" * 40))


@case(needs_sandbox=False)
async def a_sandbox_is_killed_when_its_context_manager_exits(world):
    if world.is_async:
        async with await world.Sandbox.create() as sandbox:
            assert await sandbox.is_running()
    else:
        with world.Sandbox.create() as sandbox:
            assert sandbox.is_running()
    assert await do(sandbox.is_running()) is False
