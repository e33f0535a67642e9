"""Network settings. Tests have no internet, so only denials can be shown."""

import e2b
from cases import case
from sdk import do, fails

REACH = "curl -sS --connect-timeout 5 --max-time 10 https://192.0.2.1"


@case(needs_sandbox=False)
async def a_sandbox_without_internet_reaches_nothing(world):
    sandbox = await world.create(allow_internet_access=False)
    await fails(e2b.CommandExitException, lambda: sandbox.commands.run(REACH))


@case(needs_sandbox=False)
async def a_sandbox_is_created_with_network_rules(world):
    sandbox = await world.create(network={"allow_out": ["1.1.1.1"], "deny_out": ["0.0.0.0/0"]})
    await fails(e2b.CommandExitException, lambda: sandbox.commands.run(REACH))


@case(needs_sandbox=False, since=(2, 30))
async def network_rules_of_a_running_sandbox_are_changed(world):
    sandbox = await world.create()
    await do(sandbox.update_network({"deny_out": ["0.0.0.0/0"]}))
    await fails(e2b.CommandExitException, lambda: sandbox.commands.run(REACH))
