"""Custom templates."""

import e2b
from cases import case
from sdk import do


async def build(world, template, name):
    try:
        return await do(world.Template.build(template, name))
    except TypeError:  # Before it took the name as it is.
        return await do(world.Template.build(template, alias=name))


@case(needs_sandbox=False, timeout=240)
async def a_template_is_built_from_another(world):
    name = f"built-{world.mark[:12]}"
    template = e2b.Template().from_template("base").set_envs({"COLOUR": "blue"}).run_cmd("echo made > /home/user/made.txt")
    await build(world, template, name)
    sandbox = await world.create(name)
    assert await do(sandbox.files.read("made.txt")) == "made\n"
    assert (await do(sandbox.commands.run("echo $COLOUR"))).stdout == "blue\n"


@case(needs_sandbox=False, timeout=240)
async def a_failed_template_build_names_the_step(world):
    template = e2b.Template().from_template("base").run_cmd("exit 7")
    try:
        await build(world, template, f"broken-{world.mark[:12]}")
    except Exception as error:
        assert "7" in str(error) and "exit" in str(error).lower(), error
    else:
        raise AssertionError("it was built")


@case(needs_sandbox=False, timeout=240)
async def a_template_runs_its_start_command(world):
    name = f"started-{world.mark[:12]}"
    template = e2b.Template().from_template("base").set_start_cmd("python3 -m http.server 8000", e2b.wait_for_port(8000))
    await build(world, template, name)
    sandbox = await world.create(name)
    assert "200" in (await do(sandbox.commands.run("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8000/"))).stdout
