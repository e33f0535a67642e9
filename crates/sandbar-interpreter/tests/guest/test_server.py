import json
import os
import socket
import unittest

from served import Served


class Contexts(Served):
    def test_health_is_reported(self):
        self.assertEqual(self.ask("GET", "/health"), (200, '"OK"'))

    def test_the_default_context_of_python_is_listed(self):
        contexts = json.loads(self.ask("GET", "/contexts")[1])
        self.assertIn("python", [context["language"] for context in contexts])
        self.assertEqual(sorted(contexts[0]), ["cwd", "id", "language"])

    def test_a_context_has_its_own_variables_and_directory(self):
        one, other = self.context(cwd=self.directory), self.context()
        self.run_code("x = 1", context_id=one["id"])
        self.assertEqual(self.run_code("x", context_id=other["id"]).error["name"], "NameError")
        self.assertEqual(self.run_code("import os; os.getcwd()", context_id=one["id"]).text, self.directory)
        self.assertEqual((one["cwd"], one["language"]), (self.directory, "python"))
        self.assertEqual(json.loads(self.ask("GET", "/contexts")[1])[-1], other)

    def test_variables_cannot_be_given_to_a_context(self):
        # Clients may make contexts without a token, and variables can make programs run other
        # programs.
        context = self.context(env_vars={"OF_CONTEXT": "yes"})
        self.assertEqual(self.run_code("import os; 'OF_CONTEXT' in os.environ", context_id=context["id"]).text, "False")

    def test_runs_are_counted_by_context(self):
        context = self.context()
        self.assertEqual([self.run_code("1", context_id=context["id"]).count for _ in range(3)], [1, 2, 3])

    def test_a_restarted_context_has_forgotten(self):
        context = self.context()
        self.run_code("x = 1", context_id=context["id"])
        self.assertEqual(self.ask("POST", "/contexts/%s/restart" % context["id"]), (200, "null"))
        run = self.run_code("x", context_id=context["id"])
        self.assertEqual((run.error["name"], run.count), ("NameError", 1))

    def test_a_removed_context_is_not_found(self):
        context = self.context()
        self.assertEqual(self.ask("DELETE", "/contexts/" + context["id"]), (200, "null"))
        for method, path, body in (
            ("DELETE", "/contexts/" + context["id"], None),
            ("POST", "/contexts/%s/restart" % context["id"], None),
            ("POST", "/execute", {"code": "1", "context_id": context["id"]}),
        ):
            self.assertEqual(self.ask(method, path, body), (404, "Context %s not found" % context["id"]))

    def test_restarting_the_default_context_by_its_name_works(self):
        self.run_code("gone = 1")
        self.assertEqual(self.ask("POST", "/contexts/default/restart")[0], 200)
        self.assertEqual(self.run_code("gone").error["name"], "NameError")

    def test_a_run_ends_when_its_context_is_restarted(self):
        context = self.context()
        connection = self.start("print('on', flush=True)\nimport time\ntime.sleep(600)", context_id=context["id"])
        response = connection.getresponse()
        self.assertIn(b"number", response.readline())
        self.assertIn(b"on", response.readline())
        self.ask("POST", "/contexts/%s/restart" % context["id"])
        self.assertEqual(json.loads(response.readline())["name"], "UnexpectedEndOfExecution")

    def test_python_starts_without_its_directory_and_others_tell(self):
        context = self.context(cwd="/no/such")
        self.assertEqual(context["cwd"], "/no/such")
        home = self.run_code("import os; os.getcwd()").text
        self.assertEqual(self.run_code("import os; os.getcwd()", context_id=context["id"]).text, home)
        status, text = self.ask("POST", "/contexts", {"cwd": "/no/such", "language": "bash"})
        self.assertEqual(status, 500)
        self.assertIn("/no/such", text)

    def test_unsupported_languages_are_named(self):
        for language in ("deno", "cobol"):
            for path, body in (("/execute", {"code": "1"}), ("/contexts", {})):
                status, text = self.ask("POST", path, dict(body, language=language))
                self.assertEqual(status, 501)
                self.assertIn("is not offered", text)

    def test_wrong_requests_are_refused(self):
        self.assertEqual(self.ask("POST", "/execute", {"code": "1", "context_id": "a", "language": "python"})[0], 400)
        self.assertEqual(self.ask("POST", "/execute", {})[0], 422)
        self.assertEqual(self.ask("POST", "/execute", {"code": 1})[0], 422)
        self.assertEqual(self.ask("POST", "/execute", {"code": "1", "env_vars": {"a": 1}})[0], 422)
        self.assertEqual(self.ask("POST", "/execute", [])[0], 422)
        self.assertEqual(self.ask("GET", "/nowhere")[0], 404)

    def test_absent_fields_may_be_null(self):
        run = self.run_code("1", context_id=None, language=None, env_vars=None)
        self.assertEqual(run.text, "1")

    def test_a_connection_serves_many_requests(self):
        connection = self.start("1")
        self.assertEqual(self.finish(connection).text, "1")
        for _ in range(2):
            connection.request("POST", "/execute", json.dumps({"code": "2"}))
            self.assertEqual(self.finish(connection).text, "2")

    def test_a_body_may_come_in_chunks(self):
        connection = self.open("GET", "/health")
        connection.getresponse().read()
        body = [b'{"co', b'de": "40 + 2"}']
        connection.request("POST", "/execute", iter(body), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        self.assertEqual(self.finish(connection).text, "42")


class Trouble(Served):
    def leave(self, code, **more):
        """Runs code until its first output and goes away, as the SDKs do on a time-out."""
        connection = self.start(code, **more)
        response = connection.getresponse()
        response.readline()
        self.assertIn(b"running", response.readline())
        response.close()
        connection.close()

    def test_code_of_a_disconnected_client_is_interrupted(self):
        self.run_code("kept = 1")
        self.leave("import time\nprint('running', flush=True)\ntime.sleep(600)")
        self.assertEqual(self.run_code("kept").text, "1")

    def test_awaiting_code_is_interrupted_too(self):
        self.run_code("kept = 2")
        self.leave("import asyncio\nprint('running', flush=True)\nawait asyncio.sleep(600)")
        self.assertEqual(self.run_code("kept").text, "2")

    def test_endless_output_is_interrupted_too(self):
        self.run_code("kept = 3")
        self.leave("print('running', flush=True)\nwhile True:\n    print('x' * 1000)")
        self.assertEqual(self.run_code("kept").text, "3")

    def test_programs_of_interrupted_code_end(self):
        self.leave("print('running', flush=True)\n!sleep 600")
        self.assertEqual(self.run_code("1").text, "1")

    def test_code_that_refuses_the_interrupt_is_killed(self):
        self.run_code("gone = 1")
        self.leave("import time\nprint('running', flush=True)\nwhile True:\n    try:\n        time.sleep(600)\n    except KeyboardInterrupt:\n        pass")
        self.assertEqual(self.run_code("gone").error["name"], "NameError")

    def test_javascript_is_interrupted_busy_and_waiting(self):
        if json.dumps("javascript") not in self.ask("GET", "/contexts")[1]:
            self.skipTest("node is not here")
        self.run_code("var kept = 4", language="js")
        self.leave("console.log('running'); while (true) {}", language="js")
        self.leave("console.log('running'); await new Promise(() => {})", language="js")
        self.assertEqual(self.run_code("kept", language="js").text, "4")

    def test_bash_is_interrupted(self):
        self.run_code("kept=5", language="bash")
        self.leave("echo running; sleep 600", language="bash")
        self.assertEqual(self.run_code("echo $kept", language="bash").stdout, "5\n")

    def test_disconnected_client_leaves_the_queue(self):
        context = self.context()["id"]
        first = self.start("import time, os\nwhile not os.path.exists('/proc/self/nosuch'):\n    time.sleep(0.01)", context_id=context)
        response = first.getresponse()
        response.readline()
        second = self.start("x = 'second ran'", context_id=context)
        second.getresponse().close()
        second.close()
        third = self.start("x", context_id=context)
        response.close()
        first.close()
        self.assertEqual(self.finish(third).error["name"], "NameError")

    def test_a_dead_kernel_is_reported_and_restarted(self):
        run = self.run_code("print('last', flush=True)\nimport os\nos.kill(os.getpid(), 9)")
        self.assertEqual(run.stdout, "last\n")
        self.assertEqual((run.error["name"], run.error["value"]), ("ContextRestarting", "Context was restarted"))
        self.assertIn("SIGKILL", run.error["traceback"])
        self.assertEqual(self.run_code("'again'").text, "again")

    def test_a_kernel_that_dies_between_runs_is_started_again(self):
        pid = int(self.run_code("import os\nos.getpid()").text)
        os.kill(pid, 9)
        while os.path.exists("/proc/%d" % pid):
            pass
        self.assertEqual(self.run_code("'again'").text, "again")

    def test_a_child_that_holds_the_pipes_does_not_hide_the_end(self):
        code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(20)\n    os._exit(0)\nos._exit(7)"
        self.assertIn("code 7", self.run_code(code).error["traceback"])

    def test_64_mebibytes_of_output_arrive(self):
        run = self.run_code("line = 'x' * 1023\nfor _ in range(64 * 1024):\n    print(line)\n'end'")
        self.assertEqual((len(run.stdout), run.text), (64 * 1024 * 1024, "end"))

    def test_a_large_result_arrives(self):
        code = "class Big:\n    def _repr_html_(self):\n        return 'y' * (32 << 20)\nBig()"
        self.assertEqual(len(self.run_code(code).results[0]["html"]), 32 << 20)

    def test_large_code_runs(self):
        self.assertEqual(self.run_code("text = '%s'\nlen(text)" % ("z" * (4 << 20))).text, str(4 << 20))

    def test_runs_in_one_context_wait_for_each_other_in_order(self):
        context = self.context()["id"]
        self.run_code("seen = []\nimport time", context_id=context)
        connections = []
        for number in range(8):
            connection = self.start("seen.append(%d)\ntime.sleep(0.02)\nlen(seen)" % number, context_id=context)
            # The response headers confirm its place in the queue.
            response = connection.getresponse()
            connections.append(response)
        for response in connections:
            response.read()
        self.assertEqual(self.run_code("seen", context_id=context).text, "[0, 1, 2, 3, 4, 5, 6, 7]")

    def test_contexts_run_at_the_same_time(self):
        one, other = self.context()["id"], self.context()["id"]
        name = "/tmp/sandbar-interpreter-%d" % os.getpid()
        os.mkfifo(name)
        self.addCleanup(os.unlink, name)
        # Each end of the pipe can be opened only while the other context runs.
        reading = self.start("open(%r).read()" % name, context_id=one)
        self.run_code("with open(%r, 'w') as pipe:\n    pipe.write('met')" % name, context_id=other)
        self.assertEqual(self.finish(reading).text, "met")

    def test_malformed_requests_do_not_affect_others(self):
        for data in (b"nonsense\r\n\r\n", b"POST /execute HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"POST /execute HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.sendall(data)
                self.assertIn(b"400", connection.recv(1024).split(b"\r\n")[0])
        self.assertEqual(self.run_code("1").text, "1")


class Bash(Served):
    needs = ("bash",)

    def bash(self, code, **more):
        return self.run_code(code, language="bash", **more)

    def test_variables_functions_and_directory_stay(self):
        self.bash("x=5; f() { echo \"f $1\"; }; cd " + self.directory)
        self.assertEqual(self.bash("echo $x $PWD; f a").stdout, "5 %s\nf a\n" % self.directory)

    def test_streams_and_status_are_reported(self):
        run = self.bash("echo out; echo err >&2; (exit 3)")
        self.assertEqual((run.stdout, run.stderr, run.error["value"]), ("out\n", "err\n", "3"))
        self.assertIsNone(self.bash("true").error)

    def test_variables_of_one_run_are_gone_after_it(self):
        self.assertEqual(self.bash("echo $OWN", env_vars={"OWN": "it's $HOME"}).stdout, "it's $HOME\n")
        self.assertEqual(self.bash("echo ${OWN:-none} $SANDBOX_WIDE").stdout, "none given\n")
        self.assertEqual(self.bash("echo $SANDBOX_WIDE", env_vars={"SANDBOX_WIDE": "other"}).stdout, "other\n")
        self.assertEqual(self.bash("echo $SANDBOX_WIDE").stdout, "given\n")

    def test_code_reads_nothing_of_what_comes_next(self):
        self.assertEqual(self.bash("cat").stdout, "")
        self.assertEqual(self.bash("echo next").stdout, "next\n")

    def test_broken_code_is_an_error(self):
        run = self.bash("echo 'open")
        self.assertIn("unexpected EOF", run.stderr)
        self.assertEqual(self.bash("echo on").stdout, "on\n")

    def test_leaving_the_shell_starts_another(self):
        self.assertEqual(self.bash("exit 3").error["name"], "ContextRestarting")
        self.assertEqual(self.bash("echo new").stdout, "new\n")


class WithoutPrograms(Served):
    environment = {"PATH": "/no/such"}

    def test_missing_language_names_its_package(self):
        for language, package in (("r", "r-base-core"), ("java", "default-jdk-headless"), ("js", "Node.js"), ("bash", "bash")):
            for path, body in (("/execute", {"code": "1"}), ("/contexts", {})):
                status, text = self.ask("POST", path, dict(body, language=language))
                self.assertEqual(status, 501)
                self.assertIn(package, text)
                self.assertIn("this sandbox does not have", text)


if __name__ == "__main__":
    unittest.main()
