"""Ingress to ports of a sandbox by host name, which needs domain mode."""

import ssl
import urllib.error
import urllib.request

from cases import case
from sdk import NAMES, do, until


def get(host, path="/", headers={}):
    request = urllib.request.Request(f"https://{host}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10, context=ssl.create_default_context()) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@case()
async def a_port_has_a_host_name(world, sandbox):
    assert sandbox.get_host(3000).startswith(f"3000-{sandbox.sandbox_id}.")


@case(needs=NAMES)
async def a_server_is_reached_by_name(world, sandbox):
    await do(sandbox.files.write("www/index.html", "served"))
    await do(sandbox.commands.run("python3 -m http.server 3000 --directory www", background=True))
    await until(lambda: get(sandbox.get_host(3000)) == (200, b"served"), "it is served")


@case(needs=NAMES)
async def a_closed_port_says_so(world, sandbox):
    status, body = get(sandbox.get_host(3999))
    assert status == 502 and b"port is not open" in body, (status, body)


@case(needs=NAMES)
async def a_port_of_a_killed_sandbox_is_bad_gateway(world, sandbox):
    await do(sandbox.kill())
    status, body = get(sandbox.get_host(3000))
    assert status == 502 and b"not found" in body, (status, body)
