"""From `Sandbox.create()` to the first word of a command, by the SDK itself; milliseconds as JSON.

One after the other, staggered by 200 ms, and twenty at once, as ComputeSDK measures it. Called by
crates/sandbar/benches/e2b, once against a host and once against a server that only answers.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor

from e2b import Sandbox

ROUNDS, CROWD, STAGGER = 30, 20, 0.2


def first_word(wait=0.0):
    time.sleep(wait)
    began = time.perf_counter()
    sandbox = Sandbox.create(timeout=120)
    said = sandbox.commands.run("echo hello").stdout
    taken = (time.perf_counter() - began) * 1000
    assert said == "hello\n", said
    sandbox.kill()
    return taken


first_word()
with ThreadPoolExecutor(CROWD) as pool:
    print(
        json.dumps(
            {
                "sequential": [first_word() for _ in range(ROUNDS)],
                "staggered": list(pool.map(first_word, [number * STAGGER for number in range(CROWD)])),
                "burst": list(pool.map(first_word, [0.0] * CROWD)),
            }
        )
    )
