"""Drives a host through MCP clients from PyPI: `mcp` (both major versions) and `fastmcp`.

The runner that installs them and starts this is in crates/sandbar/tests/foreign.
Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... mcp_client.py stdio|http session|client|fastmcp
       SANDBAR: path of `sandbar`, for stdio
       session: `mcp.ClientSession`, with a handshake
       client: `mcp.Client`, since 2.0
       fastmcp: `fastmcp.Client`
"""

import asyncio
import contextlib
import os
import sys

URL, TOKEN, SESSION = os.environ["URL"], os.environ["TOKEN"], os.environ["SESSION"]
PROGRAM, ARGUMENTS = os.environ.get("SANDBAR", "sandbar"), ["mcp"]
ENVIRONMENT = {**os.environ, "SANDBAR_URL": URL, "SANDBAR_TOKEN": TOKEN}
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
TIMEOUT = 60  # Seconds until a call that hangs fails.
# The newest version each client knows.
NEGOTIATED = {"session": "2025-11-25", "client": "2026-07-28", "fastmcp": "2026-07-28"}


@contextlib.asynccontextmanager
async def stdio_streams():
    """`sandbar mcp`, started by the client."""
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=PROGRAM, args=ARGUMENTS, env=ENVIRONMENT)
    async with stdio_client(server) as streams:
        yield streams[0], streams[1]


@contextlib.asynccontextmanager
async def http_streams():
    """`/mcp` on the host's port. `mcp` 2 renamed the client function and its headers parameter."""
    from mcp.client import streamable_http

    if hasattr(streamable_http, "streamablehttp_client"):
        async with streamable_http.streamablehttp_client(f"{URL}/mcp", headers=HEADERS) as streams:
            yield streams[0], streams[1]
        return
    try:
        import httpx2 as http
    except ImportError:
        import httpx as http
    async with http.AsyncClient(headers=HEADERS, timeout=TIMEOUT) as client:
        async with streamable_http.streamable_http_client(f"{URL}/mcp", http_client=client) as streams:
            yield streams[0], streams[1]


STREAMS = {"stdio": stdio_streams, "http": http_streams}


class Session:
    """The session class of `mcp`: a handshake, then calls."""

    @contextlib.asynccontextmanager
    async def connect(self, transport):
        from mcp import ClientSession

        async with STREAMS[transport]() as (reader, writer), ClientSession(reader, writer) as self.client:
            greeting = await self.client.initialize()
            self.name = field(greeting, "serverInfo", "server_info").name
            self.version = field(greeting, "protocolVersion", "protocol_version")
            await self.client.send_ping()
            yield self

    async def tools(self):
        return (await self.client.list_tools()).tools

    async def call(self, name, arguments, hear=None):
        return await self.client.call_tool(name, arguments, progress_callback=hear)


class Client(Session):
    """The client class of `mcp` 2: it finds out by itself which version is spoken."""

    @contextlib.asynccontextmanager
    async def connect(self, transport):
        from mcp import Client

        async with Client(STREAMS[transport]()) as self.client:
            self.name, self.version = self.client.server_info.name, self.client.protocol_version
            yield self


class FastMcp(Session):
    """The client class of `fastmcp`."""

    @contextlib.asynccontextmanager
    async def connect(self, transport):
        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

        transports = {
            "stdio": lambda: StdioTransport(PROGRAM, ARGUMENTS, env=ENVIRONMENT, keep_alive=False),
            "http": lambda: StreamableHttpTransport(f"{URL}/mcp", headers=HEADERS),
        }
        async with Client(transports[transport]()) as self.client:
            self.name, self.version = self.client.server_info.name, self.client.protocol_version
            yield self

    async def tools(self):
        return await self.client.list_tools()

    async def call(self, name, arguments, hear=None):
        return await self.client.call_tool(name, arguments, progress_handler=hear, raise_on_error=False)


def field(result, *names):
    """A field of an answer, which is spelled in two ways by versions of the client."""
    return next(getattr(result, name) for name in names if hasattr(result, name))


def said(result):
    return "".join(block.text for block in result.content if block.type == "text")


class Tools:
    def __init__(self, session):
        self.session = session

    async def any(self, name, /, **arguments):
        return await asyncio.wait_for(self.session.call(name, arguments), TIMEOUT)

    async def call(self, name, /, **arguments):
        result = await self.any(name, **arguments)
        assert not field(result, "isError", "is_error"), f"{name}: {said(result)}"
        return result

    async def read(self, name, /, **arguments):
        """What a tool answers for programs; the client has checked it against the tool's output schema."""
        return field(await self.call(name, **arguments), "structuredContent", "structured_content")


async def drive(session):
    assert session.name == "sandbar", session.name
    listed = {tool.name: tool for tool in await session.tools()}
    assert {"bash", "read_file", "sandbox_create", "snapshot", "rollback", "fork", "diff", "logs"} <= set(listed)
    annotations = listed["read_file"].annotations
    assert field(annotations, "readOnlyHint", "read_only_hint") is True, annotations
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

    received = []

    async def on_progress(progress, total, message):
        received.append((progress, message))

    arguments = {"sandbox": SESSION, "cmd": "echo two >> a.txt; for n in 1 2 3; do echo $n; sleep 0.1; done"}
    streamed = await session.call("bash", arguments, on_progress)
    assert said(streamed) == "1\n2\n3\n", said(streamed)
    assert "".join(message for _, message in received) == "1\n2\n3\n", received
    assert [number for number, _ in received] == sorted({number for number, _ in received}), received
    print(f"stream: {len(received)} notifications")

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

    # More than a model reads: the answer is cut, and names the file that has all of it.
    long = said(await tools.call("bash", sandbox=SESSION, cmd="seq 1 100000"))
    assert len(long) < 31_000 and long.startswith("1\n2\n") and long.endswith("99999\n100000\n"), len(long)
    path = long.split("all of it is in ")[1].split("]")[0]
    counted = said(await tools.call("bash", sandbox=SESSION, cmd=f"wc -l < {path}"))
    assert counted == "100000\n", counted

    # `mcp.ClientSession` does not notify the server of a cancelled call.
    if sys.argv[2] != "session":
        await cancel(session)
    gone = await tools.read("sandbox_destroy", sandbox=SESSION)
    assert gone["destroyed"] == SESSION, gone
    print(f"destroy: {SESSION}")


async def cancel(session):
    """Checks that a cancelled call ends its command, and that the connection stays usable."""
    tools = Tools(session)
    call = asyncio.create_task(session.call("bash", {"sandbox": SESSION, "cmd": "echo $$ > pid; exec sleep 1000"}))
    await tools.call("bash", sandbox=SESSION, cmd="until test -s pid; do sleep 0.05; done")
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    await tools.call("bash", sandbox=SESSION, cmd="while kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done; rm pid")


async def main():
    transport, kind = sys.argv[1:]
    clients = {"session": Session, "client": Client, "fastmcp": FastMcp}
    async with clients[kind]().connect(transport) as session:
        assert session.version == NEGOTIATED[kind], session.version
        await drive(session)


asyncio.run(main())
