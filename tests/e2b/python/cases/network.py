"""What a sandbox may reach. Nothing but this machine is there in tests: what is denied is what can be shown."""

import e2b
from cases import case
from sdk import do, fails

REACH = "curl -sS --connect-timeout 5 --max-time 10 https://192.0.2.1"


@case(needs_sandbox=False)
async def without_internet_nothing_is_reached(world):
    sandbox = await world.create(allow_internet_access=False)
    await fails(e2b.CommandExitException, lambda: sandbox.commands.run(REACH))


@case(needs_sandbox=False)
async def a_network_with_rules_is_made(world):
    sandbox = await world.create(network={"allow_out": ["1.1.1.1"], "deny_out": ["0.0.0.0/0"]})
    await fails(e2b.CommandExitException, lambda: sandbox.commands.run(REACH))


@case(needs_sandbox=False, since=(2, 30))
async def a_network_is_changed_while_it_runs(world):
    sandbox = await world.create()
    await do(sandbox.update_network({"deny_out": ["0.0.0.0/0"]}))
    await fails(e2b.CommandExitException, lambda: sandbox.commands.run(REACH))
