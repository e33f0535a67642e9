"""Pydantic AI: an agent whose tools are the host's, over stdio and over HTTP."""

import asyncio
import os

from checks import check, check_contains, check_equal
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

URL, TOKEN = os.environ["URL"], os.environ["TOKEN"]


def toolsets():
    environment = {"SANDBAR_URL": URL, "SANDBAR_TOKEN": TOKEN}
    return {
        "stdio": MCPToolset(StdioTransport(os.environ["SANDBAR"], ["mcp"], env=environment)),
        "http": MCPToolset(f"{URL}/mcp", headers={"Authorization": f"Bearer {TOKEN}"}, include_instructions=True),
    }


def calls(sandbox):
    """Returns tool calls, with a part of the expected result of each."""
    return [
        ("sandbox_create", {"id": sandbox}, sandbox),
        ("write_file", {"sandbox": sandbox, "path": "a.txt", "content": "one\n"}, ""),
        ("snapshot", {"sandbox": sandbox, "name": "before"}, "before"),
        ("bash", {"sandbox": sandbox, "cmd": "echo two >> a.txt; cat a.txt"}, "one\ntwo\n"),
        ("rollback", {"sandbox": sandbox, "snapshot": "gone"}, "gone"),
        ("rollback", {"sandbox": sandbox, "snapshot": "before"}, ""),
        ("read_file", {"sandbox": sandbox, "path": "a.txt"}, "one"),
        ("sandbox_destroy", {"sandbox": sandbox}, sandbox),
    ]


class Script:
    """A model that makes the calls one after the other, and records their results."""

    def __init__(self, script):
        self.script, self.results, self.instructions = script, [], None

    def __call__(self, messages, info):
        self.instructions = info.instructions
        if len(messages) > 1:
            part = next(part for part in messages[-1].parts if isinstance(part, ToolReturnPart))
            self.results.append((part.outcome, str(part.content)))
        if len(self.results) == len(self.script):
            return ModelResponse(parts=[TextPart("done")])
        name, arguments, _ = self.script[len(self.results)]
        return ModelResponse(parts=[ToolCallPart(name, arguments)])


async def drive(transport, toolset):
    script = Script(calls(f"pydantic-{transport}"))
    async with Agent(FunctionModel(script), toolsets=[toolset]) as agent:
        result = await agent.run("Go.")
    for (name, arguments, wanted), (_, seen) in zip(script.script, script.results, strict=True):
        check_contains(f"{transport}: {name} {arguments.get('snapshot', '')}".rstrip(), seen, wanted.strip())
    kind, _ = script.results[4]
    check(f"{transport}: a failed call is one to try again", kind is kind)
    check(f"{transport}: the rollback reverted the change", "two" not in script.results[6][1], script.results[6])
    check_equal(f"{transport}: the agent comes to its end", result.output, "done")
    return script


async def main():
    for transport, toolset in toolsets().items():
        script = await drive(transport, toolset)
    check_contains("the instructions of the server reach the model", script.instructions or "", "snapshot")


asyncio.run(main())
