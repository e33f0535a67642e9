import base64
import unittest

from served import Served


class R(Served):
    needs = ("R",)

    def r(self, code, **more):
        return self.run_code(code, language="r", **more)

    def test_what_is_printed_is_one_message_a_line(self):
        run = self.r('print("Hello, World!")')
        self.assertEqual([line["text"] for line in run.lines if line["type"] == "stdout"], ['[1] "Hello, World!"\n'])
        self.assertEqual(run.results, [])

    def test_a_line_that_never_ends_is_not_held_back(self):
        run = self.r("for (i in 1:10) {\n  cat('.')\n  Sys.sleep(0.1)\n}")
        messages = [line["text"] for line in run.lines if line["type"] == "stdout"]
        self.assertEqual("".join(messages), "." * 10)
        self.assertGreater(len(messages), 1)

    def test_the_last_value_is_the_main_result_and_the_state_stays(self):
        self.r("x <- c(1, 2, 3)\nf <- function(n) {\n  n * 2\n}")
        run = self.r("mean(x)\nf(21)")
        self.assertEqual([result["text"] for result in run.results], ["[1] 2", "[1] 42"])
        self.assertEqual([result["is_main_result"] for result in run.results], [False, True])
        self.assertEqual(run.text, "[1] 42")
        self.assertEqual(self.r("invisible(5)\ny <- 6").results, [])

    def test_values_are_printed_as_r_prints_them(self):
        self.assertIn("  a b\n1 1 x", self.r("data.frame(a = 1:2, b = c('x', 'y'))").text)
        self.assertEqual(self.r("'grüße \"quoted\" \\\\ back'").text, '[1] "grüße \\"quoted\\" \\\\ back"')
        self.assertEqual(self.r("NULL").text, "NULL")
        self.assertIn("Min.", self.r("summary(c(1, 2))").text)
        self.assertIn("An object of class", self.r("setClass('P', representation(n = 'numeric')); new('P', n = 1)").text)
        self.assertEqual(self.r("cat('odd \\001 \\t text\\n')").stdout, "odd \x01 \t text\n")

    def test_errors_have_value_and_traceback_and_later_code_runs(self):
        run = self.r("cat('before\\n')\ng <- function() stop('broken')\nh <- function() g()\nh()\ncat('after\\n')")
        self.assertEqual((run.error["name"], run.error["value"], run.stdout), ("ERROR", "broken", "before\n"))
        self.assertIn("Error in g(): broken", run.error["traceback"])
        self.assertIn("h()", run.error["traceback"])
        self.assertNotIn("tryCatch", run.error["traceback"])
        self.assertIn("not found", self.r("no_such_name").error["value"])
        self.assertIn("unexpected", self.r("x <- <- 1").error["value"])
        self.assertEqual(self.r("1 + 1").text, "[1] 2")

    def test_messages_and_warnings_go_to_stderr(self):
        run = self.r("message('told')\nwarning('careful')\ninvisible(as.integer('x'))")
        self.assertIn("told", run.stderr)
        self.assertIn("careful", run.stderr)
        self.assertIn("NAs introduced", run.stderr)
        self.assertNotIn("expressions", run.stderr)
        self.assertIsNone(run.error)

    def test_programs_print_to_the_cell(self):
        self.assertEqual(self.r("invisible(system('echo shell'))").stdout, "shell\n")

    def test_variables_of_one_run_are_gone_after_it(self):
        code = "c(Sys.getenv('SANDBOX_WIDE'), Sys.getenv('OWN', unset = 'unset'))"
        self.assertEqual(self.r(code, env_vars={"OWN": "it's", "SANDBOX_WIDE": "other"}).text, '[1] "other" "it\'s" ')
        self.assertEqual(self.r(code).text, '[1] "given" "unset"')

    def test_plots_are_pictures(self):
        run = self.r("plot(1:3)\nhist(c(1, 2, 2))")
        pictures = [result["png"] for result in run.results if result.get("png")]
        self.assertEqual(len(pictures), 2, run.lines)
        for picture in pictures:
            self.assertTrue(base64.b64decode(picture, validate=True).startswith(b"\x89PNG\r\n\x1a\n"))
        self.assertEqual(self.r("x <- 1").results, [])

    def test_large_code_and_output_arrive_whole(self):
        code = "long <- '%s'\nnchar(long)" % ("é" * 200000)
        self.assertEqual(self.r(code).text, "[1] 200000")
        self.assertEqual(len(self.r("for (n in 1:20000) cat(strrep('x', 99), '\\n', sep = '')").stdout), 2000000)
        self.assertEqual(len(self.r("strrep('y', 300000)").text), 300006)

    def test_code_whose_client_went_away_is_interrupted(self):
        self.r("kept <- 1")
        connection = self.start("cat('on\\n')\nrepeat Sys.sleep(0.1)", language="r")
        response = connection.getresponse()
        response.readline()
        self.assertIn(b"on", response.readline())
        response.close()
        connection.close()
        self.assertEqual(self.r("kept").text, "[1] 1")

    def test_a_program_that_quits_is_started_again(self):
        self.r("kept <- 1")
        self.assertEqual(self.r("quit('no', 3)").error["name"], "ContextRestarting")
        self.assertIn("not found", self.r("kept").error["value"])

    def test_contexts_are_apart(self):
        context = self.context(language="r", cwd=self.directory)
        self.assertEqual(context["language"], "r")
        self.assertEqual(self.run_code("own <- 1\ngetwd()", context_id=context["id"]).text, '[1] "%s"' % self.directory)
        self.assertIn("not found", self.r("own").error["value"])

    def test_redirected_output_does_not_outlive_the_cell(self):
        self.r("sink(tempfile())\ncat('away\\n')")
        self.assertEqual(self.r("cat('here\\n')").stdout, "here\n")


if __name__ == "__main__":
    unittest.main()
