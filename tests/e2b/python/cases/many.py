"""Concurrency."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from cases import case
from sdk import do


@case(needs_sandbox=False, timeout=240)
async def twenty_sandboxes_are_created_concurrently(world):
    if world.is_async:
        made = await asyncio.gather(*[world.create() for _ in range(20)])
        results = await asyncio.gather(*[sandbox.commands.run("hostname; echo up") for sandbox in made])
    else:
        with ThreadPoolExecutor(20) as pool:
            made = [world.keep(sandbox) for sandbox in pool.map(lambda _: world.Sandbox.create(timeout=120), range(20))]
            results = list(pool.map(lambda sandbox: sandbox.commands.run("hostname; echo up"), made))
    assert len({sandbox.sandbox_id for sandbox in made}) == 20
    assert all(result.stdout.endswith("up\n") for result in results)


@case(timeout=240)
async def fifty_files_are_written_concurrently(world, sandbox):
    if world.is_async:
        await asyncio.gather(*[sandbox.files.write(f"at-once/{n}", f"{n}") for n in range(50)])
    else:
        with ThreadPoolExecutor(50) as pool:
            list(pool.map(lambda n: sandbox.files.write(f"at-once/{n}", f"{n}"), range(50)))
    assert len(await do(sandbox.files.list("at-once"))) == 50
