"""The interpreter's server, run on loopback of this machine for one test class."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

GUEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "guest")


def sources():
    found = {}
    for directory, _, files in os.walk(GUEST):
        for name in files:
            if name.endswith((".py", ".js", ".bash", ".java", ".R")):
                path = os.path.join(directory, name)
                with open(path) as file:
                    found[os.path.relpath(path, GUEST)] = file.read()
    return found


class Execution(object):
    """What a run of code answered, put together as the SDKs do it."""

    def __init__(self, lines):
        self.lines = list(lines)
        self.stdout = "".join(line["text"] for line in self.lines if line["type"] == "stdout")
        self.stderr = "".join(line["text"] for line in self.lines if line["type"] == "stderr")
        self.results = [line for line in self.lines if line["type"] == "result"]
        self.error = next((line for line in self.lines if line["type"] == "error"), None)
        self.text = next((line.get("text") for line in self.results if line["is_main_result"]), None)
        self.count = next((line["execution_count"] for line in self.lines if line["type"] == "number_of_executions"), None)

    @property
    def order(self):
        return [line["type"] for line in self.lines]


class Served(unittest.TestCase):
    needs = ()
    environment = {}

    @classmethod
    def setUpClass(cls):
        for program in cls.needs:
            if shutil.which(program) is None:
                raise unittest.SkipTest("%s is not here" % program)
        # Python puts the working directory into `sys.path`: files in /tmp would be modules.
        cls.directory = os.path.realpath(tempfile.mkdtemp(prefix="sandbar-interpreter-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        # Interpreters that are killed leave their temporary directories behind.
        temporary = tempfile.mkdtemp(prefix="sandbar-interpreter-tmp-")
        cls.addClassCleanup(shutil.rmtree, temporary, ignore_errors=True)
        bundle = sources()
        cls.process = subprocess.Popen(
            [sys.executable, "-I", "-c", bundle["start.py"], "0", "sandbar_server.main", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ, SANDBOX_WIDE="given", TMPDIR=temporary, **cls.environment),
        )
        cls.addClassCleanup(cls.stop)
        cls.process.stdin.write(json.dumps(bundle).encode())
        cls.process.stdin.close()
        cls.port = int(cls.process.stdout.readline().split()[-1])

    @classmethod
    def stop(cls):
        cls.process.kill()
        cls.process.wait()
        cls.process.stdout.close()

    def open(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.addCleanup(connection.close)
        connection.request(method, path, None if body is None else json.dumps(body))
        return connection

    def ask(self, method, path, body=None):
        response = self.open(method, path, body).getresponse()
        return response.status, response.read().decode()

    def start(self, code, **more):
        """A run of code whose answer is not read yet."""
        return self.open("POST", "/execute", dict(code=code, **more))

    def finish(self, connection):
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        execution = Execution(json.loads(line) for line in response)
        self.assertEqual(execution.order[0], "number_of_executions", execution.lines)
        self.assertEqual(execution.order[-1], "end_of_execution", execution.lines)
        return execution

    def run_code(self, code, **more):
        return self.finish(self.start(code, **more))

    def context(self, **wanted):
        status, text = self.ask("POST", "/contexts", wanted)
        self.assertEqual(status, 200, text)
        return json.loads(text)
