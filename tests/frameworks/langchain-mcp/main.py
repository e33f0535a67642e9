"""langchain-mcp-adapters: a LangChain agent with the tools of the host, over stdio and over HTTP."""

import asyncio
import os

from checks import check, check_contains, check_equal
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

URL, TOKEN = os.environ["URL"], os.environ["TOKEN"]
SERVERS = {
    "stdio": {
        "transport": "stdio",
        "command": os.environ["SANDBAR"],
        "args": ["mcp"],
        "env": {"SANDBAR_URL": URL, "SANDBAR_TOKEN": TOKEN},
    },
    "http": {"transport": "streamable_http", "url": f"{URL}/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}},
}


def calls(sandbox):
    """Returns tool calls, with a part of the expected result of each."""
    return [
        ("sandbox_create", {"id": sandbox}, sandbox),
        ("write_file", {"sandbox": sandbox, "path": "a.txt", "content": "one\n"}, ""),
        ("snapshot", {"sandbox": sandbox, "name": "before"}, "before"),
        ("bash", {"sandbox": sandbox, "cmd": "echo two >> a.txt; cat a.txt"}, "one\ntwo\n"),
        ("rollback", {"sandbox": sandbox, "snapshot": "before"}, ""),
        ("bash", {"sandbox": sandbox, "cmd": "cat a.txt; exit 3"}, "exit code 3"),
        ("sandbox_destroy", {"sandbox": sandbox}, sandbox),
    ]


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def scripted(script):
    for number, (name, arguments, _) in enumerate(script):
        yield AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])
    yield AIMessage(content="done")


def text(message):
    if isinstance(message.content, str):
        return message.content
    return "".join(block.get("text", "") for block in message.content)


async def drive(client, transport):
    script = calls(f"langchain-{transport}")
    # One connection for all calls: without a session the adapter opens one for each.
    async with client.session(transport) as session:
        tools = await load_mcp_tools(session)
        names = {tool.name for tool in tools}
        check(f"{transport}: the tools are listed", {name for name, _, _ in script} <= names, names)
        agent = create_agent(ScriptedModel(messages=scripted(script)), tools)
        result = await agent.ainvoke({"messages": [{"role": "user", "content": "Go."}]})
    results = [text(message) for message in result["messages"] if isinstance(message, ToolMessage)]
    for (name, _, wanted), seen in zip(script, results, strict=True):
        check_contains(f"{transport}: {name}", seen, wanted)
    check("the rollback reverted the change", "two" not in results[5], results[5])
    check_equal(f"{transport}: the agent comes to its end", result["messages"][-1].content, "done")


async def main():
    client = MultiServerMCPClient(SERVERS)
    for transport in SERVERS:
        await drive(client, transport)
    tools = {tool.name: tool for tool in await client.get_tools(server_name="http")}
    seen = await tools["sandbox_list"].ainvoke({})
    check("no sandbox is left", "langchain-" not in str(seen), seen)


asyncio.run(main())
