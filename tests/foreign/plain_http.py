"""Drives a host through Python's `requests`: Connect in JSON over one HTTP/1.1 connection.

Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... plain_http.py
"""

import base64
import json
import os
import struct

import requests

READ_TIMEOUT = 60  # Seconds.
connection = requests.Session()
connection.headers["authorization"] = f"Bearer {os.environ['TOKEN']}"
session = os.environ["SESSION"]


def url(method):
    return f"{os.environ['URL']}/sandbar.v1.SandboxService/{method}"


def answer(method, **fields):
    return connection.post(url(method), json=fields, timeout=READ_TIMEOUT)


def call(method, **fields):
    response = answer(method, **fields)
    assert response.status_code == 200, response.text
    return response.json()


def tool(name, call_id, **params):
    result = call("ExecuteTool", sessionId=session, toolName=name, toolCallId=call_id, params=params)["result"]
    assert not result.get("isError"), result
    return result


def envelope(message):
    data = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(data)) + data


def stream(method, *messages):
    """Yields the messages of a streaming call as they arrive."""
    headers = {"content-type": "application/connect+json"}
    # A generator is sent in chunks.
    body = (envelope(message) for message in messages)
    with connection.post(url(method), data=body, headers=headers, stream=True, timeout=READ_TIMEOUT) as response:
        assert response.status_code == 200, response.text
        while True:
            flags, length = struct.unpack(">BI", response.raw.read(5))
            message = json.loads(response.raw.read(length))
            if flags & 2:
                assert "error" not in message, message
                assert response.raw.read() == b"", "something came after the end"
                return
            yield message


def did(step, saw):
    print(f"{step}: {saw}", flush=True)


made = call("CreateSession", baseSnapshot="host", sessionId=session, labels={"client": "requests"})["session"]
assert made["state"] == "SESSION_STATE_ACTIVE", made
did("create", made["state"])

tool("write_file", "write", path="note.txt", content="first\n")
read = tool("read_file", "read", path="note.txt")
assert "first" in read["content"], read
did("tool", read["content"].strip())

did("snapshot", call("CreateSnapshot", sessionId=session, name="clean")["snapshot"]["name"])

assert tool("bash", "change", cmd="echo second > note.txt; echo more > extra.txt")["exitCode"] == 0
batches = stream("Diff", {"sessionId": session, "from": "clean"})
changes = {change["path"]: change["kind"] for batch in batches for change in batch["changes"]}
assert changes["/workspace/note.txt"] == "CHANGE_KIND_MODIFIED", changes
assert changes["/workspace/extra.txt"] == "CHANGE_KIND_ADDED", changes
did("stream", f"{len(changes)} changes")

call("RollbackSession", sessionId=session, snapshot="clean")
read = tool("read_file", "read again", path="note.txt")
assert "first" in read["content"], read
did("rollback", read["content"].strip())

refused = answer("RollbackSession", sessionId=session, snapshot="never-taken")
error = refused.json()
(detail,) = error["details"]
assert refused.status_code == 404 and error["code"] == "not_found", error
assert detail["type"] == "sandbar.v1.ErrorDetail" and detail["debug"]["code"] == "SnapshotNotFound", error
assert requests.post(url("ListSessions"), json={}, timeout=READ_TIMEOUT).status_code == 401
did("error", f"{detail['debug']['code']}: {error['message']}")

events = list(stream(
    "Exec",
    {"start": {"sessionId": session, "argv": ["cat"], "stdin": True}},
    {"stdin": base64.b64encode(b"ping\n").decode()},
    {"closeStdin": {}},
))
output = b"".join(base64.b64decode(event["stdout"]) for event in events if "stdout" in event)
assert "started" in events[0] and output == b"ping\n" and events[-1]["exited"]["code"] == 0, events
did("exec", output.decode().strip())

call("DestroySession", sessionId=session)
assert answer("GetSession", sessionId=session).status_code == 404
did("destroy", "gone")
