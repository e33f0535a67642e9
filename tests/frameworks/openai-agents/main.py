"""OpenAI Agents SDK: a `SandboxAgent` in an E2B sandbox, and a workspace moved between sandboxes."""

import asyncio
import io
import json
import os
import pathlib
import ssl
import tempfile
import urllib.request

from agents import RunConfig, Runner
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from agents.testing import ScriptedModel, assistant_message, function_call
from checks import check, check_contains, check_equal, eventually
from openai.types.responses import ResponseCustomToolCall

PATCH = "*** Begin Patch\n*** Update File: task.md\n@@\n-the task\n+the patched task\n*** End Patch\n"


def outputs(result):
    """Returns the outputs of the tools, in order."""
    return [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]


def manifest():
    return Manifest(entries={"task.md": File(content=b"the task\n")}, environment={"value": {"COLOUR": "blue"}})


async def agent():
    shell = "cat task.md; pwd; whoami; echo $COLOUR; echo made > made.txt; exit 3"
    patch = ResponseCustomToolCall(type="custom_tool_call", name="apply_patch", call_id="call-1", input=PATCH)
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": shell}, call_id="call-0")],
            [patch],
            [function_call("exec_command", {"cmd": "cat task.md made.txt"}, call_id="call-2")],
            [assistant_message("done")],
        ]
    )
    options = E2BSandboxClientOptions(sandbox_type="e2b")
    check_equal("the default mode keeps the workspace as an archive", options.workspace_persistence, "tar")
    config = RunConfig(
        tracing_disabled=True,
        sandbox=SandboxRunConfig(client=E2BSandboxClient(), options=options, manifest=manifest()),
    )
    result = await Runner.run(SandboxAgent(name="agent", model=model), "Go.", run_config=config)
    first, patched, last = outputs(result)
    check_contains("the manifest is in the workspace", first, "Output:\nthe task\n/workspace\nuser\nblue\n")
    check_contains("the model receives the exit code", first, "exited with code 3")
    check_contains("a patch is applied", patched, "task.md")
    check_contains("commands may write in the workspace", last, "Output:\nthe patched task\nmade\n")
    check_equal("the agent comes to its end", result.final_output, "done")
    model.assert_complete()


async def until(session, update, text):
    """Reads a terminal until it has shown a text."""
    output = update.output.decode()
    while text not in output:
        check("the terminal is open", update.process_id is not None, output)
        update = await session.pty_write_stdin(session_id=update.process_id, chars="", yield_time_s=1)
        output += update.output.decode()


async def terminal(session):
    started = await session.pty_exec_start("read -p 'name? ' name; echo hello $name", tty=True, yield_time_s=1)
    await until(session, started, "name? ")
    answered = await session.pty_write_stdin(session_id=started.process_id, chars="you\n", yield_time_s=1)
    await until(session, answered, "hello you")
    check("a question in a terminal is answered", True)
    ended = await session.pty_write_stdin(session_id=started.process_id, chars="exit 7\n", yield_time_s=30)
    check_equal("the terminal ends with its exit code", ended.exit_code, 7)


async def port(session):
    started = await session.pty_exec_start("python3 -m http.server 8000", yield_time_s=1)
    check("a server stays", started.process_id is not None, started)
    endpoint = await session.resolve_exposed_port(8000)
    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    url = f"https://{endpoint.host}:{endpoint.port}/task.md"
    answer = await asyncio.to_thread(eventually, lambda: urllib.request.urlopen(url, context=context).read())
    check_equal("a server in the sandbox is reached", answer, b"the task\n")


async def workspace(mode, scratch):
    """One session, its end, and another sandbox with the same workspace."""
    client = E2BSandboxClient()
    options = E2BSandboxClientOptions(
        sandbox_type="e2b", workspace_persistence=mode, metadata={"mode": mode}, exposed_ports=(8000,), timeout=600
    )
    snapshot = LocalSnapshotSpec(base_path=scratch)
    session = await client.create(manifest=manifest(), options=options, snapshot=snapshot)
    async with session:
        before = session.state.sandbox_id
        await session.write(pathlib.Path("src/a.txt"), io.BytesIO(b"alpha\n"))
        moved = await session.exec("mv src/a.txt src/b.txt && ln -s b.txt src/link && chmod 750 src/b.txt")
        check(f"{mode}: commands change what the API wrote", moved.ok(), moved)
        read = await session.read(pathlib.Path("src/b.txt"))
        check_equal(f"{mode}: the API reads what commands changed", read.read(), b"alpha\n")
        failed = await session.exec("ls", "missing", shell=False)
        check_equal(f"{mode}: a failure has its exit code", failed.exit_code, 2)
        await terminal(session)
        await port(session)
    state = client.deserialize_session_state(json.loads(session.state.model_dump_json()))
    session = await client.resume(state)
    async with session:
        check(f"{mode}: the workspace goes to another sandbox", session.state.sandbox_id != before, before)
        listed = await session.exec("cat src/link && stat -c '%a %U' src/b.txt && cat task.md && echo more >> task.md")
        wanted = (0, b"alpha\n750 user\nthe task\n")
        check_equal(f"{mode}: and is as it was, and writable", (listed.exit_code, listed.stdout), wanted)


async def main():
    await agent()
    with tempfile.TemporaryDirectory() as scratch:
        await workspace("tar", pathlib.Path(scratch) / "tar")
        await workspace("snapshot", pathlib.Path(scratch) / "snapshot")


asyncio.run(main())
