#!/usr/bin/env python3
"""The loop of agent-loop/, with nothing but Python's standard library: Connect JSON over HTTP.

SANDBAR_URL is the address of the host, SANDBAR_TOKEN its token:

    SANDBAR_TOKEN=$(cat /var/lib/sandbar/token) python3 examples/agent-loop.py
"""

import json
import os
import urllib.error
import urllib.request

URL = os.environ.get("SANDBAR_URL", "http://127.0.0.1:9100")
TOKEN = os.environ["SANDBAR_TOKEN"]


def rpc(method, **message):
    """Makes one call. Raises an error of the host with its code and message."""
    request = urllib.request.Request(
        f"{URL}/sandbar.v1.SandboxService/{method}",
        data=json.dumps(message).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        body = json.load(error)
        raise RuntimeError(f"{method}: {body['code']}: {body.get('message', '')}") from None


class Agent:
    """Performs the actions of the model in one session."""

    def __init__(self, session):
        self.session = session
        self.calls = 0
        self.last_turn = None

    def say(self, words):
        print(f"model: {words}")

    def call(self, tool, **params):
        """Calls a tool, prints its result, and returns whether it succeeded."""
        self.calls += 1
        print(f"call {tool}: {params.get('cmd') or params['path']}")
        # The host runs a call id only once, so an interrupted call can be repeated.
        call_id = f"call-{self.calls}"
        answer = rpc("ExecuteTool", sessionId=self.session, toolName=tool, toolCallId=call_id, params=params)["result"]
        # Connect JSON omits empty and false fields.
        for line in answer.get("content", "").splitlines():
            print(f"  | {line}")
        if answer.get("isError"):
            print(f"  failed with exit code {answer['exitCode']}" if "exitCode" in answer else "  failed")
        return not answer.get("isError", False)

    def end_turn(self):
        self.last_turn = rpc("TurnComplete", sessionId=self.session)["snapshot"]["name"]
        print(f"turn over: {self.last_turn}")

    def rollback(self):
        rpc("RollbackSession", sessionId=self.session, snapshot=self.last_turn)
        print("rolled back")


CHECK = """\
grep -qx Ada names.txt || { echo 'names.txt was overwritten'; exit 1; }
grep -qx 'Hello, Grace!' greetings.txt && echo 'all good'
"""

# Attempts of the model, until one succeeds.
ATTEMPTS = [
    (
        "the quickest way is to change the names where they are",
        "sed -i 's/.*/Hello, &!/' names.txt && cp names.txt greetings.txt",
    ),
    (
        "this time the names stay as they are",
        "sed 's/.*/Hello, &!/' names.txt > greetings.txt",
    ),
]


def work(agent):
    """The script of the model."""
    agent.say("first the names, and a check that says when the work is done")
    agent.call("write_file", path="names.txt", content="Ada\nGrace\n")
    agent.call("write_file", path="check.sh", content=CHECK)
    agent.end_turn()
    for plan, command in ATTEMPTS:
        agent.say(plan)
        if agent.call("bash", cmd=command) and agent.call("bash", cmd="sh check.sh"):
            agent.end_turn()
            return "greetings.txt greets everyone"
        agent.say("that went wrong: back to the end of the last turn")
        agent.rollback()
    return "I do not know what else to try"


def main():
    session = rpc("CreateSession", baseSnapshot="host")["session"]["sessionId"]
    try:
        print(f"done: {work(Agent(session))}")
    finally:
        rpc("DestroySession", sessionId=session)


main()
