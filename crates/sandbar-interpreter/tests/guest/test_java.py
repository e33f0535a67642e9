import unittest

from served import Served


class Java(Served):
    needs = ("javac",)

    def java(self, code, **more):
        return self.run_code(code, language="java", **more)

    def test_a_line_and_its_end_are_distinct(self):
        run = self.java('System.out.println("Hello, World!")')
        self.assertEqual([line["text"] for line in run.lines if line["type"] == "stdout"], ["Hello, World!", "\n"])
        self.assertEqual(run.results, [])

    def test_the_last_value_is_the_result_and_the_state_stays(self):
        self.java("int x = 40;\nint twice(int n) {\n    return n * 2;\n}")
        self.assertEqual(self.java("x += 1;\ntwice(x)").text, "82")
        self.assertEqual(self.java("x").text, "41")
        self.assertEqual(self.java("int y = 5;").results, [])
        self.assertEqual(self.java('"te" + "xt"').text, "text")
        self.assertEqual(self.java("List.of(1, 2).stream().map(n -> n * n).collect(Collectors.toList())").text, "[1, 4]")

    def test_classes_span_cells_and_lines(self):
        self.java('class Greeter {\n    String name;\n    Greeter(String name) { this.name = name; }\n\n    String greet() {\n        return "hi " + name;\n    }\n}')
        run = self.java('// a comment\nfor (int n = 0; n < 2; n++) {\n    System.out.println(new Greeter("n" + n).greet());\n}\nnew Greeter("last").greet()')
        self.assertEqual((run.stdout, run.text), ("hi n0\nhi n1\n", "hi last"))

    def test_errors_have_a_traceback_and_later_code_runs(self):
        run = self.java('System.out.println("before");\nObject none = null;\nint z = 1 / (none == null ? 0 : 1);\nSystem.out.println("after");')
        self.assertEqual((run.error["name"], run.error["value"]), ("java.lang.ArithmeticException", "/ by zero"))
        self.assertIn("java.lang.ArithmeticException: / by zero\n\tat ", run.error["traceback"])
        self.assertEqual(run.stdout, "before\n")
        wrong = self.java("int q = nothing;").error
        self.assertEqual(wrong["name"], "CompilationException")
        self.assertIn("cannot find symbol", wrong["value"])
        self.assertIn("int q = nothing;", wrong["traceback"])
        caused = self.java('throw new RuntimeException("outer", new IllegalStateException("inner"));').error
        self.assertIn("Caused by: java.lang.IllegalStateException: inner", caused["traceback"])
        self.assertEqual(self.java("int open(int a) {").error["name"], "CompilationException")
        self.assertEqual(self.java("1 + 1").text, "2")

    def test_the_other_stream_and_odd_text_arrive(self):
        run = self.java('System.err.println("grüße €  \\"q\\" \\t");')
        self.assertEqual(run.stderr, 'grüße €  "q" \t\n')
        self.assertEqual(self.java('"a\\\\b\\nc\\t\\"d\\u0001"').text, 'a\\b\nc\t"d\x01')
        self.assertEqual(self.java("'x'").text, "x")
        self.assertEqual(self.java('"grüße \\uD83D\\uDE00"').text, "grüße \U0001f600")

    def test_variables_are_properties(self):
        code = 'System.getProperty("SANDBOX_WIDE") + System.getProperty("OWN", "unset")'
        self.assertEqual(self.java(code, env_vars={"OWN": 'a"\\ü', "SANDBOX_WIDE": "other"}).text, 'othera"\\ü')
        self.assertEqual(self.java(code).text, "givenunset")
        self.assertEqual(self.java('System.getenv("SANDBOX_WIDE")').text, "given")

    def test_large_output_arrives_whole(self):
        run = self.java('for (int n = 0; n < 2000; n++) System.out.println("x".repeat(999));')
        self.assertEqual(len(run.stdout), 2000000)

    def test_code_whose_client_went_away_is_interrupted(self):
        self.java("int kept = 1;")
        connection = self.start('System.out.println("on");\nwhile (true) { Thread.sleep(50); }', language="java")
        response = connection.getresponse()
        response.readline()
        self.assertIn(b"on", response.readline())
        response.close()
        connection.close()
        self.assertEqual(self.java("kept").text, "1")

    def test_a_program_that_exits_is_started_again(self):
        context = self.context(language="java")["id"]
        self.run_code("int kept = 1;", context_id=context)
        self.assertEqual(self.run_code("System.exit(3);", context_id=context).error["name"], "ContextRestarting")
        self.assertEqual(self.run_code("kept", context_id=context).error["name"], "CompilationException")


if __name__ == "__main__":
    unittest.main()
