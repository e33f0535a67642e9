"""agno: its E2B toolkit in an agent, and its functions one by one.

Left out, since agno 3.1.10 does not fit the SDK that it installs, whatever the host answers:
  download_chart_data         asks a chart for `.get`, which the charts of the SDK do not have
  download_file_from_sandbox  opens the file in binary mode and writes the text that the SDK returned
  watch_directory             'WatchHandle' object has no attribute 'get_change'
  list_running_sandboxes      'SandboxPaginator' object is not iterable
"""

import base64
import json
import os
import pathlib
import ssl
import tempfile
import urllib.request

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.tools.e2b import E2BTools
from checks import check, check_contains, check_equal, eventually

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PICTURE = f"import base64\nclass Picture:\n    def _repr_png_(self):\n        return base64.b64decode('{PIXEL}')\nPicture()"
CALLS = [
    ("run_python_code", {"code": "total = sum(range(5))\nprint('total', total)"}),
    ("run_python_code", {"code": "{}['missing']"}),
    ("write_file_content", {"file_path": "/home/user/a.txt", "content": "alpha\n"}),
    ("run_command", {"command": "cat a.txt && whoami"}),
    ("run_python_code", {"code": PICTURE}),
    ("download_png_result", {"result_index": 0}),
]


class ScriptedModel(Model):
    """Makes the calls one after the other, and records their results."""

    def __init__(self):
        super().__init__(id="scripted")
        self.results = []

    def invoke(self, messages, **_):
        # A message with the picture follows its result.
        self.results = [str(message.content) for message in messages if message.role == "tool"]
        if len(self.results) == len(CALLS):
            return ModelResponse(role="assistant", content="done")
        name, arguments = CALLS[len(self.results)]
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call-{len(self.results)}", "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call])

    async def ainvoke(self, *_, **__):
        raise NotImplementedError

    invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = ainvoke


def agent(tools):
    model = ScriptedModel()
    result = Agent(model=model, tools=[tools], telemetry=False).run("Go.")
    python, failed, wrote, command, picture, downloaded = model.results
    check_contains("the agent runs Python", python, "total 10")
    check_contains("the model receives an error", failed, "KeyError", "missing")
    check_equal("the agent writes a file", wrote, "/home/user/a.txt")
    check_contains("the agent runs a command as the user", command, "alpha", "user")
    check_contains("a result is announced", picture, "Result 1: ")
    check_contains("a picture is handed on", downloaded, "Image added")
    check_equal("the agent has the picture", len(result.images or []), 1)
    pathlib.Path(result.images[0].filepath).unlink()
    check_equal("the agent comes to its end", result.content, "done")


def functions(tools, scratch):
    local = scratch / "local.txt"
    local.write_text("from here\n")
    uploaded = tools.upload_file(str(local), "/home/user/uploaded.txt")
    check_equal("a file is uploaded", uploaded, "/home/user/uploaded.txt")
    check_equal("a file is read", tools.read_file_content(uploaded), "from here\n")
    check_contains("files are listed", tools.list_files("/home/user"), "- uploaded.txt (File, 10 bytes)")
    # What this function does with standard error is to log it.
    check_contains("output is streamed", tools.stream_command("echo one; echo two"), "STDOUT: one")
    handle = tools.run_background_command("sleep 600")
    check("a command runs in the background", isinstance(handle.pid, int), handle)
    check_contains("and is killed", tools.kill_background_command(handle), "terminated successfully")
    tools.run_python_code(PICTURE)
    saved = scratch / "picture.png"
    result = tools.download_png_result(None, 0, str(saved))
    pathlib.Path(result.images[0].filepath).unlink()
    check_equal("a picture is saved", saved.read_bytes(), base64.b64decode(PIXEL))
    check_equal("the time-out is set", tools.set_sandbox_timeout(120), "120")


def port(tools):
    url = tools.run_server("python3 -m http.server 8000 --directory /home/user", 8000)
    check_equal("the URL of a port is the same again", tools.get_public_url(8000), url)
    # agno says http:, and this host speaks TLS.
    url = url.replace("http://", "https://", 1)
    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    answer = eventually(lambda: urllib.request.urlopen(f"{url}/uploaded.txt", context=context).read())
    check_equal("a server in the sandbox is reached", answer, b"from here\n")


tools = E2BTools(sandbox_options={"metadata": {"by": "agno"}})
check_equal("options for the sandbox arrive", tools.sandbox.get_info().metadata, {"by": "agno"})
agent(tools)
with tempfile.TemporaryDirectory() as scratch:
    functions(tools, pathlib.Path(scratch))
port(tools)
check_contains("the sandbox is shut down", tools.shutdown_sandbox(), "success")
check("the sandbox is gone", not tools.sandbox.is_running())
