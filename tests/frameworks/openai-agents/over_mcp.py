"""OpenAI Agents SDK: an agent whose tools are the host's, over stdio and over HTTP."""

import asyncio
import os

from agents import Agent, RunConfig, Runner
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from agents.testing import ScriptedModel, assistant_message, function_call
from checks import check, check_contains, check_equal

URL, TOKEN = os.environ["URL"], os.environ["TOKEN"]
# Its default is 5 seconds a call, which a busy machine may need.
TIMEOUT = 60


def servers():
    environment = {"SANDBAR_URL": URL, "SANDBAR_TOKEN": TOKEN}
    stdio = {"command": os.environ["SANDBAR"], "args": ["mcp"], "env": environment}
    http = {"url": f"{URL}/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}, "timeout": TIMEOUT}
    return {
        "stdio": MCPServerStdio(stdio, client_session_timeout_seconds=TIMEOUT),
        "http": MCPServerStreamableHttp(http, client_session_timeout_seconds=TIMEOUT),
    }


def calls(sandbox):
    """Returns tool calls, with a part of the expected result of each."""
    return [
        ("sandbox_create", {"id": sandbox}, sandbox),
        ("write_file", {"sandbox": sandbox, "path": "a.txt", "content": "one\n"}, ""),
        ("snapshot", {"sandbox": sandbox, "name": "before"}, "before"),
        ("bash", {"sandbox": sandbox, "cmd": "echo two >> a.txt; cat a.txt"}, "one\\ntwo\\n"),
        ("rollback", {"sandbox": sandbox, "snapshot": "before"}, ""),
        ("bash", {"sandbox": sandbox, "cmd": "cat a.txt; exit 3"}, "exit code 3"),
        ("sandbox_destroy", {"sandbox": sandbox}, sandbox),
    ]


async def drive(transport, server):
    script = calls(f"openai-{transport}")
    steps = [
        [function_call(name, arguments, call_id=f"call-{number}")] for number, (name, arguments, _) in enumerate(script)
    ]
    model = ScriptedModel([*steps, [assistant_message("done")]])
    async with server:
        agent = Agent(name="agent", model=model, mcp_servers=[server])
        result = await Runner.run(agent, "Go.", run_config=RunConfig(tracing_disabled=True), max_turns=20)
    results = [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]
    for (name, _, wanted), seen in zip(script, results, strict=True):
        check_contains(f"{transport}: {name}", seen, wanted)
    check(f"{transport}: the rollback reverted the change", "two" not in results[5], results[5])
    check_equal(f"{transport}: the agent comes to its end", result.final_output, "done")
    model.assert_complete()


async def main():
    for transport, server in servers().items():
        await drive(transport, server)


asyncio.run(main())
