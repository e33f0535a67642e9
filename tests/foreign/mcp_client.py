"""Drives a host through the official Python client of the Model Context Protocol (`mcp` on PyPI).

The runner that installs it and starts this is in crates/sandbar/tests/foreign.
Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... mcp_client.py stdio|http     (stdio: SANDBAR=path of the program)
"""

import asyncio
import contextlib
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

URL, TOKEN, SESSION = os.environ["URL"], os.environ["TOKEN"], os.environ["SESSION"]
PATIENCE = 60  # Seconds until a call that hangs fails.


@contextlib.asynccontextmanager
async def over_stdio():
    """`sandbar mcp`, started by the client."""
    environment = {**os.environ, "SANDBAR_URL": URL, "SANDBAR_TOKEN": TOKEN}
    server = StdioServerParameters(command=os.environ.get("SANDBAR", "sandbar"), args=["mcp"], env=environment)
    async with stdio_client(server) as streams:
        yield streams[0], streams[1]


@contextlib.asynccontextmanager
async def over_http():
    """`/mcp` on the host's own port. The client's function was renamed, and takes its headers in another way since."""
    from mcp.client import streamable_http

    headers = {"Authorization": f"Bearer {TOKEN}"}
    if hasattr(streamable_http, "streamablehttp_client"):
        async with streamable_http.streamablehttp_client(f"{URL}/mcp", headers=headers) as streams:
            yield streams[0], streams[1]
        return
    try:
        import httpx2 as http
    except ImportError:
        import httpx as http
    async with http.AsyncClient(headers=headers, timeout=PATIENCE) as client:
        async with streamable_http.streamable_http_client(f"{URL}/mcp", http_client=client) as streams:
            yield streams[0], streams[1]


def field(result, *names):
    """A field of an answer, which is spelled in two ways by versions of the client."""
    return next(getattr(result, name) for name in names if hasattr(result, name))


def said(result):
    return "".join(block.text for block in result.content if block.type == "text")


class Tools:
    def __init__(self, session):
        self.session = session

    async def any(self, name, **arguments):
        return await asyncio.wait_for(self.session.call_tool(name, arguments), PATIENCE)

    async def call(self, name, **arguments):
        result = await self.any(name, **arguments)
        assert not field(result, "isError", "is_error"), f"{name}: {said(result)}"
        return result

    async def read(self, name, **arguments):
        """What a tool answers for programs; the client has checked it against the tool's output schema."""
        return field(await self.call(name, **arguments), "structuredContent", "structured_content")


async def drive(session):
    greeting = await session.initialize()
    assert field(greeting, "serverInfo", "server_info").name == "sandbar", greeting
    listed = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert {"bash", "read_file", "sandbox_create", "snapshot", "rollback", "fork", "diff", "logs"} <= set(listed)
    annotations = listed["read_file"].annotations
    assert field(annotations, "readOnlyHint", "read_only_hint") is True, annotations
    await session.send_ping()
    tools = Tools(session)

    made = await tools.read("sandbox_create", id=SESSION, labels={"by": "mcp"})
    assert made["sandbox"] == SESSION and made["state"] == "active", made
    print(f"create: {made['sandbox']}")

    await tools.call("write_file", sandbox=SESSION, path="a.txt", content="one\n")
    read = said(await tools.call("bash", sandbox=SESSION, cmd="cat a.txt"))
    assert read == "one\n", read
    print(f"tool: {read!r}")

    snapshot = await tools.read("snapshot", sandbox=SESSION, name="before")
    assert snapshot["snapshot"] == "before", snapshot
    print("snapshot: before")

    heard = []

    async def hear(progress, total, message):
        heard.append((progress, message))

    arguments = {"sandbox": SESSION, "cmd": "echo two >> a.txt; for n in 1 2 3; do echo $n; sleep 0.1; done"}
    streamed = await session.call_tool("bash", arguments, progress_callback=hear)
    assert said(streamed) == "1\n2\n3\n", said(streamed)
    assert "".join(message for _, message in heard) == "1\n2\n3\n", heard
    assert [number for number, _ in heard] == sorted({number for number, _ in heard}), heard
    print(f"stream: {len(heard)} notifications")

    changed = await tools.read("diff", sandbox=SESSION, **{"from": "before"})
    files = [(entry["kind"], entry["path"]) for entry in changed["changes"] if entry["entry"] == "file"]
    assert files == [("modified", "/workspace/a.txt")], changed
    await tools.call("rollback", sandbox=SESSION, snapshot="before")
    read = said(await tools.call("bash", sandbox=SESSION, cmd="cat a.txt"))
    assert read == "one\n", read
    print(f"rollback: {read!r}")

    failed = await tools.any("rollback", sandbox=SESSION, snapshot="gone")
    assert field(failed, "isError", "is_error") and "gone" in said(failed), failed
    print(f"error: {said(failed).splitlines()[0]}")

    failed = await tools.any("run_code", sandbox=SESSION, language="sh", code="echo out; exit 7")
    assert field(failed, "isError", "is_error") and said(failed) == "out\n[exit code 7]", said(failed)
    print("exec: exit code 7")

    gone = await tools.read("sandbox_destroy", sandbox=SESSION)
    assert gone["destroyed"] == SESSION, gone
    print(f"destroy: {SESSION}")


async def main():
    connect = {"stdio": over_stdio, "http": over_http}[sys.argv[1]]
    async with connect() as (reader, writer), ClientSession(reader, writer) as session:
        await drive(session)


asyncio.run(main())
