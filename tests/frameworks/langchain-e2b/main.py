"""langchain-e2b: a deep agent whose files and commands are in a sandbox, and its two backends alone."""

import asyncio

from checks import check, check_contains, check_equal
from deepagents import create_deep_agent
from e2b import AsyncSandbox, Sandbox
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_e2b import AsyncE2BSandbox, E2BSandbox

CALLS = [
    ("write_file", {"file_path": "/home/user/notes.txt", "content": "one\ntwo\n"}),
    ("edit_file", {"file_path": "/home/user/notes.txt", "old_string": "two", "new_string": "three"}),
    ("read_file", {"file_path": "/home/user/notes.txt"}),
    ("execute", {"command": "cat notes.txt && whoami && ls missing"}),
    ("grep", {"pattern": "three", "path": "/home/user"}),
    ("ls", {"path": "/home/user"}),
]


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def scripted():
    """A model that makes the calls one after the other."""
    for number, (name, arguments) in enumerate(CALLS):
        yield AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])
    yield AIMessage(content="done")


def deep_agent(sandbox):
    agent = create_deep_agent(model=ScriptedModel(messages=scripted()), backend=E2BSandbox(sandbox=sandbox))
    messages = agent.invoke({"messages": [{"role": "user", "content": "Take notes."}]})["messages"]
    results = {message.name: str(message.content) for message in messages if isinstance(message, ToolMessage)}
    check_contains("the agent reads what it wrote and edited", results["read_file"], "one", "three")
    check_contains("the agent runs commands as the user", results["execute"], "one\nthree\nuser\n", "missing")
    check_contains("the agent receives the exit code of a failed command", results["execute"], "exit code 2")
    check_contains("the agent searches files", results["grep"], "/home/user/notes.txt")
    check_contains("the agent lists a directory", results["ls"], "/home/user/notes.txt")
    check_equal("the agent comes to its end", messages[-1].content, "done")
    check_equal("the files are in the sandbox", sandbox.files.read("/home/user/notes.txt"), "one\nthree\n")


def backend(sandbox):
    backend = E2BSandbox(sandbox=sandbox)
    check_equal("the backend has the sandbox's id", backend.id, sandbox.sandbox_id)
    uploaded = backend.upload_files([("/tmp/a/b.bin", b"\x00\xff"), ("relative", b"")])
    check_equal("files are uploaded", [file.error for file in uploaded], [None, "invalid_path"])
    downloaded = backend.download_files(["/tmp/a/b.bin", "/tmp/missing", "/tmp/a"])
    seen = [(file.content, file.error) for file in downloaded]
    wanted = [(b"\x00\xff", None), (None, "file_not_found"), (None, "is_directory")]
    check_equal("files are downloaded, with an error code for each failure", seen, wanted)
    found = backend.glob("*.bin", "/tmp/a")
    check("a pattern finds files", "b.bin" in str(found), found)
    timed_out = backend.execute("sleep 60", timeout=1)
    check_equal("a command that takes too long is ended", timed_out.exit_code, 124)


async def async_backend():
    sandbox = await AsyncSandbox.create()
    backend = AsyncE2BSandbox(sandbox=sandbox)
    await backend.awrite("/home/user/a.txt", "alpha\n")
    await backend.aedit("/home/user/a.txt", "alpha", "beta")
    read = await backend.aread("/home/user/a.txt")
    check_contains("the asynchronous backend reads what it edited", str(read), "beta")
    ran = await asyncio.gather(*(backend.aexecute(f"echo {number}; exit {number}") for number in range(4)))
    seen = [(result.output.strip(), result.exit_code) for result in ran]
    check_equal("commands run at the same time", seen, [(str(number), number) for number in range(4)])
    await sandbox.kill()


sandbox = Sandbox.create()
deep_agent(sandbox)
backend(sandbox)
sandbox.kill()
asyncio.run(async_backend())
