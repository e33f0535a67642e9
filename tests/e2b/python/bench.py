"""Time from `Sandbox.create()` to the first output of a command; milliseconds as JSON.

Sequentially, staggered by 200 ms, and twenty at once, as ComputeSDK measures it; and bursts of
twenty by the asynchronous SDK, each from its first request to its last output. Called by
crates/sandbar/benches/e2b, once against a host and once against a stub server.
"""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor

from e2b import AsyncSandbox, Sandbox

ROUNDS, CROWD, STAGGER, BURSTS = 30, 20, 0.2, 10


def first_word(wait=0.0):
    time.sleep(wait)
    began = time.perf_counter()
    sandbox = Sandbox.create(timeout=120)
    said = sandbox.commands.run("echo hello").stdout
    taken = (time.perf_counter() - began) * 1000
    assert said == "hello\n", said
    sandbox.kill()
    return taken


async def async_first_word():
    sandbox = await AsyncSandbox.create(timeout=120)
    said = (await sandbox.commands.run("echo hello")).stdout
    assert said == "hello\n", said
    return sandbox


async def async_burst():
    began = time.perf_counter()
    sandboxes = await asyncio.gather(*[async_first_word() for _ in range(CROWD)])
    taken = (time.perf_counter() - began) * 1000
    await asyncio.gather(*[sandbox.kill() for sandbox in sandboxes])
    return taken


async def async_bursts():
    await async_burst()
    return [await async_burst() for _ in range(BURSTS)]


first_word()
with ThreadPoolExecutor(CROWD) as pool:
    print(
        json.dumps(
            {
                "sequential": [first_word() for _ in range(ROUNDS)],
                "staggered": list(pool.map(first_word, [number * STAGGER for number in range(CROWD)])),
                "burst": list(pool.map(first_word, [0.0] * CROWD)),
                "async_bursts": asyncio.run(async_bursts()),
            }
        )
    )
