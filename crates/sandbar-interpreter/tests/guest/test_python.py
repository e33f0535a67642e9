import itertools
import unittest
import uuid

from served import Served


class Python(Served):
    def test_variables_stay_between_runs(self):
        self.run_code("x = 41")
        self.assertEqual(self.run_code("x += 1\nx").text, "42")

    def test_the_last_expression_is_the_main_result(self):
        run = self.run_code("print('said')\n'value'")
        self.assertEqual(run.order, ["number_of_executions", "stdout", "result", "end_of_execution"])
        self.assertEqual((run.stdout, run.text), ("said\n", "value"))

    def test_nothing_and_semicolons_give_no_result(self):
        for code in ("None", "x = 1", "5;", "", "# only a comment", "5; # quiet"):
            self.assertEqual(self.run_code(code).results, [], code)

    def test_one_print_is_one_message(self):
        self.assertEqual([line["text"] for line in self.run_code("print(1, 2)").lines if line["type"] == "stdout"], ["1 2\n"])

    def test_streams_and_results_keep_their_order(self):
        run = self.run_code("import sys, os\nprint(1)\nprint(2, file=sys.stderr)\ndisplay('three')\nprint(4)\n5")
        # A line may come in two pieces: its text, and its end.
        self.assertEqual(
            [kind for kind, _ in itertools.groupby(run.order)],
            ["number_of_executions", "stdout", "stderr", "result", "stdout", "result", "end_of_execution"],
        )
        self.assertIsInstance(run.lines[1]["timestamp"], int)

    def test_output_arrives_while_the_code_runs(self):
        connection = self.start("print('first', flush=True)\nimport time\ntime.sleep(60)")
        response = connection.getresponse()
        response.readline()
        self.assertIn(b"first", response.readline())

    def test_indented_code_is_code(self):
        self.assertEqual(self.run_code("\n    y = 2\n    if y:\n        y += 1\n    y\n    ").text, "3")

    def test_errors_have_name_value_and_traceback(self):
        error = self.run_code("def divide(by):\n    return 1 / by\n\ndivide(0)").error
        self.assertEqual((error["name"], error["value"]), ("ZeroDivisionError", "division by zero"))
        for part in ("Traceback (most recent call last)", "line 4", "----> 2     return 1 / by", "in divide(by)"):
            self.assertIn(part, error["traceback"])
        self.assertNotIn("sandbar_kernel", error["traceback"])

    def test_syntax_errors_show_the_line(self):
        error = self.run_code("a = 1\nb = = 2").error
        self.assertEqual(error["name"], "SyntaxError")
        self.assertIn("line 2", error["traceback"])
        self.assertIn("b = = 2", error["traceback"])

    def test_a_frame_without_source_keeps_the_error(self):
        cases = {
            # As compiled extensions do it: a file name that is not there, and a line beyond the
            # first.
            "exec(compile('\\n' * 40 + 'raise KeyError(1)', 'pandas/_libs/index.pyx', 'exec'))": ("KeyError", "index.pyx:41"),
            # More lines than the source has.
            "exec(compile('\\n' * 40 + 'raise KeyError(1)', 'Cell In[1]', 'exec'))": ("KeyError", "Cell In[1], line 41"),
            # Frozen code has a name in angle brackets.
            "import importlib\nimportlib.import_module('no.such')": ("ModuleNotFoundError", "frozen importlib"),
            # The loader of a module is asked for the source, and may do anything.
            "exec(compile('\\n1 / 0', '<made>', 'exec'), {'__name__': 'm', '__loader__': type('L', (), {'get_source': lambda s, n: 1 / 0})()})": (
                "ZeroDivisionError",
                "<made>",
            ),
        }
        for code, (name, where) in cases.items():
            run = self.run_code(code)
            self.assertIsNotNone(run.error, (code, run.lines))
            self.assertEqual(run.error["name"], name, code)
            self.assertIn(where, run.error["traceback"])

    def test_an_error_that_cannot_be_formatted_is_reported(self):
        cases = {
            "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E()": "E",
            "class E(Exception):\n    __notes__ = 5\nraise E()": "E",
            "e = SyntaxError('s')\ne.text = e.offset = 5\ne.filename = 'f'\nraise e": "SyntaxError",
            "e = ValueError()\nfor n in range(3000):\n    f = ValueError(n)\n    f.__cause__ = e\n    e = f\nraise e": "ValueError",
            "class V:\n    def __repr__(self): exec(compile('\\n\\n1 / 0', 'v.pyx', 'exec'))\nV()": "ZeroDivisionError",
        }
        for code, name in cases.items():
            run = self.run_code(code)
            self.assertIsNotNone(run.error, (code, run.lines))
            self.assertEqual(run.error["name"], name, code)
            self.assertIn(name, run.error["traceback"])

    def test_a_lost_environment_is_an_error_and_no_silence(self):
        context = self.context()["id"]
        lose = self.run_code("import os\nos.environ = None", context_id=context, env_vars={"A": "1"})
        self.assertEqual(lose.error["name"], "AttributeError")
        self.assertEqual(self.run_code("1", context_id=context, env_vars={"A": "1"}).error["name"], "AttributeError")
        self.assertEqual(self.run_code("1", context_id=context).text, "1")

    def test_output_before_an_error_is_kept(self):
        run = self.run_code("print('before')\nraise RuntimeError('after')")
        self.assertEqual(run.order, ["number_of_executions", "stdout", "error", "end_of_execution"])

    def test_causes_are_reported(self):
        error = self.run_code("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e").error
        self.assertIn("direct cause", error["traceback"])
        self.assertIn("KeyError: 'a'", error["traceback"])

    def test_deep_recursion_is_an_error_and_no_flood(self):
        error = self.run_code("def f():\n    return f()\nf()").error
        self.assertEqual(error["name"], "RecursionError")
        self.assertIn("skipping", error["traceback"])

    def test_leaving_is_an_error_and_the_state_stays(self):
        self.run_code("kept = 1")
        error = self.run_code("import sys\nsys.exit(3)").error
        self.assertEqual((error["name"], error["value"]), ("SystemExit", "3"))
        self.assertEqual(self.run_code("kept").text, "1")

    def test_input_is_refused(self):
        self.assertEqual(self.run_code("input('name? ')").error["name"], "StdinNotImplementedError")

    def test_await_works_at_the_top(self):
        self.assertEqual(self.run_code("import asyncio\nawait asyncio.sleep(0, 'slept')").text, "slept")
        self.assertEqual(self.run_code("async def f():\n    return 5\nv = await f()\nv").text, "5")

    def test_tasks_go_on_between_runs(self):
        self.run_code("import asyncio\ndone = []\nasync def later():\n    await asyncio.sleep(0)\n    done.append(1)")
        self.run_code("task = asyncio.create_task(later())")
        self.assertEqual(self.run_code("await task\ndone").text, "[1]")

    def test_asyncio_run_works_as_in_a_script(self):
        code = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nasyncio.run(f())"
        self.assertEqual(self.run_code(code).text, "7")
        self.assertEqual(self.run_code("await f()").text, "7")

    def test_programs_print_to_the_cell(self):
        run = self.run_code("import os, subprocess\nos.system('echo out; echo err >&2')\nsubprocess.run(['echo', 'more'])\nNone")
        self.assertEqual((run.stdout, run.stderr), ("out\nmore\n", "err\n"))

    def test_forked_children_print_to_the_cell(self):
        code = "import os\nprint('parent')\npid = os.fork()\nif pid == 0:\n    print('child', flush=True)\n    os._exit(0)\nos.waitpid(pid, 0)\nNone"
        run = self.run_code(code)
        self.assertEqual(sorted(run.stdout.split()), ["child", "parent"])

    def test_worker_processes_work(self):
        code = "import multiprocessing as m\ndef square(x):\n    return x * x\nwith m.get_context('fork').Pool(2) as pool:\n    r = pool.map(square, [1, 2, 3])\nr"
        self.assertEqual(self.run_code(code).text, "[1, 4, 9]")

    def test_threads_print_to_the_cell(self):
        code = "import threading\nt = threading.Thread(target=lambda: print('thread'))\nt.start()\nt.join()"
        self.assertEqual(self.run_code(code).stdout, "thread\n")

    def test_shell_lines_run_in_the_shell(self):
        run = self.run_code("name = 'world'\n!echo hello $name {len(name)}\nif True:\n    !echo inside")
        self.assertEqual(run.stdout, "hello world 5\ninside\n")
        self.assertEqual(self.run_code("files = !printf 'a\\nb\\n'\nlist(files)").text, "['a', 'b']")
        self.assertEqual(self.run_code("!echo one \\\n  two").stdout, "one two\n")

    def test_packages_install_despite_externally_managed(self):
        self.assertEqual(self.run_code("!echo $PIP_BREAK_SYSTEM_PACKAGES").stdout, "1\n")

    def test_percent_in_plain_python_is_no_magic(self):
        self.assertEqual(self.run_code("(7\n % 4)").text, "3")
        self.assertEqual(self.run_code("text = '''\n!no\n%no'''\nlen(text)").text, "8")

    def test_magics_people_use(self):
        self.assertEqual(self.run_code("%matplotlib inline\n1").text, "1")
        self.assertEqual(self.run_code("%cd /\nimport os\nos.getcwd()").text, "/")
        self.assertEqual(self.run_code("%%bash\necho from bash").stdout, "from bash\n")
        self.assertEqual(self.run_code("%%capture kept\nprint('quiet')").stdout, "")
        self.assertEqual(self.run_code("kept.stdout").text, "quiet\\n")
        self.assertIn("Wall time", self.run_code("%%time\nsum(range(10))").stdout)
        self.assertEqual(self.run_code("%nosuch").error["name"], "UsageError")

    def test_magics_know_their_options(self):
        self.assertEqual(self.run_code("%%cd -q %s\n%%pwd" % self.directory).text, self.directory)
        self.assertIn("(3 loops)", self.run_code("%timeit -n 3 -r 1 sum(range(10))").stdout)
        self.assertIn("(4 loops)", self.run_code("%%timeit -n 4\nsum(range(10))").stdout)
        self.assertEqual(self.run_code("told = %sx echo told\ntold").text, "['told']")
        self.assertEqual(self.run_code("%%latex\n$x$").results[0]["latex"], "$x$")
        self.assertEqual(self.run_code("%%python3\nimport os\nos.write(1, b'other')").stdout, "other")
        self.run_code("gone = 1\n%reset -f")
        self.assertEqual(self.run_code("gone").error["name"], "NameError")
        self.assertIn("gone", self.run_code("gone = 1\n%whos").stdout)

    def test_a_magic_alone_needs_no_mark(self):
        self.assertEqual(self.run_code("%%cd -q %s\n" % self.directory).error, None)
        self.assertEqual(self.run_code("pwd").text, self.directory)
        self.assertEqual(self.run_code("ls -d %s" % self.directory).stdout, self.directory + "\n")
        self.assertEqual(self.run_code("pip --no-such-option").error, None)
        self.assertEqual(self.run_code("pwd = 5\npwd").text, "5")
        self.assertEqual(self.run_code("pwd").text, "5")
        self.assertIsNone(self.run_code("del pwd").error)
        self.assertEqual(self.run_code("x = 1\npwd").error["name"], "NameError")

    def test_help_is_asked_for_before_and_after(self):
        for code in ("len?", "?len", "len??"):
            self.assertIn("Help on built-in function len", self.run_code(code).stdout)

    def test_rich_objects_come_in_all_their_formats(self):
        code = """
class Rich:
    def __repr__(self): return "rich"
    def _repr_html_(self): return "<b>rich</b>"
    def _repr_markdown_(self): return "**rich**"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"png"
    def _repr_latex_(self): return "$r$"
    def _repr_json_(self): return {"a": float("nan"), "b": [1]}
    def _repr_javascript_(self): return "rich()"
    def _repr_mimebundle_(self, include=None, exclude=None): return {"application/x-own": "own"}
Rich()
"""
        result = self.run_code(code).results[0]
        self.assertEqual(result.pop("type"), "result")
        self.assertEqual(
            result,
            {
                "text": "rich",
                "html": "<b>rich</b>",
                "markdown": "**rich**",
                "svg": "<svg/>",
                "png": "cG5n",
                "latex": "$r$",
                "json": {"a": None, "b": [1]},
                "javascript": "rich()",
                "extra": {"application/x-own": "own"},
                "is_main_result": True,
            },
        )

    def test_lists_and_dictionaries_are_json_too(self):
        code = """
import dataclasses, datetime, enum, uuid
@dataclasses.dataclass
class Point:
    x: int
    _hidden: int = 0
class Color(enum.Enum):
    RED = "red"
{"a": [1, (2.5, None)], 7: float("nan"), None: Point(3), True: Color.RED, "d": datetime.date(2020, 1, 2), "u": uuid.UUID(int=0)}
"""
        expected = {"a": [1, [2.5, None]], "7": None, "null": {"x": 3}, "true": "red", "d": "2020-01-02", "u": str(uuid.UUID(int=0))}
        self.assertEqual(self.run_code(code).results[0]["json"], expected)
        self.assertEqual(self.run_code("display([1, 'x'])").results[0]["json"], [1, "x"])
        self.assertEqual(self.run_code("[]").results[0]["json"], [])

    def test_what_json_has_no_word_for_is_text_only(self):
        self.run_code("import collections; cycle = []; cycle.append(cycle)")
        pair = "collections.namedtuple('Pair', 'a')(1)"
        for code in ("[{1}]", "[b'x']", "[object()]", "{(1, 2): 3}", "[2 ** 64]", "['\\ud800']", "[%s]" % pair, "cycle", "(1,)", "1"):
            result = self.run_code(code).results[0]
            self.assertNotIn("json", result, code)
            self.assertTrue(result["text"], code)

    def test_a_format_that_fails_is_left_out(self):
        code = "class Bad:\n    def __repr__(self): return 'bad'\n    def _repr_html_(self): raise ValueError('no html')\nBad()"
        run = self.run_code(code)
        self.assertEqual(run.text, "bad")
        self.assertNotIn("html", run.results[0])

    def test_display_shows_before_the_end(self):
        run = self.run_code("from IPython.display import display, HTML, Markdown\ndisplay(HTML('<i>'), Markdown('*'))\n1")
        self.assertEqual([result["is_main_result"] for result in run.results], [False, False, True])
        self.assertEqual((run.results[0]["html"], run.results[1]["markdown"]), ("<i>", "*"))

    def test_what_was_shown_can_be_held(self):
        run = self.run_code("handle = display('one', display_id=True)\nhandle.update('two')\nhandle.display('three')")
        self.assertIsNone(run.error)
        self.assertEqual([result["text"] for result in run.results], ["one", "three"])
        run = self.run_code("from IPython.display import IFrame, Pretty\ndisplay(Pretty('as it is'), IFrame('/x', 1, 2))")
        self.assertEqual(run.results[0]["text"], "as it is")
        self.assertIn('src="/x"', run.results[1]["html"])

    def test_objects_may_lay_out_their_own_text(self):
        code = """
class Own:
    def _repr_pretty_(self, p, cycle):
        with p.group(1, "Own(", ")"):
            p.pretty([1, self])
            p.text(",")
            p.breakable()
            p.text("x")
class Failing:
    def __repr__(self): return "failing"
    def _repr_pretty_(self, p, cycle): raise ValueError()
[Own(), Failing()]
"""
        self.assertEqual(self.run_code(code).text, "[Own([1, ...], x), failing]")

    def test_packages_find_what_they_ask_the_shell_for(self):
        # As matplotlib does it when it draws for the first time, where IPython has been imported.
        code = """
import sys
from IPython.display import display
called, shell = [], sys.modules["IPython"].get_ipython()
def after(): called.append(1)
shell.events.register("post_execute", after)
if sys.modules["IPython"].version_info[:2] < (8, 24):
    from IPython.core.pylabtools import backend2gui
    # words-ok: Python code.
    assert backend2gui.get("module://sandbar_figures") is None
shell.enable_gui(None)
[hasattr(shell, "kernel"), "IPKernelApp" in shell.config]
"""
        run = self.run_code(code)
        self.assertEqual((run.error, run.text), (None, "[True, False]"))
        self.assertEqual(self.run_code("shell.events.unregister('post_execute', after)\nlen(called)").text, "1")

    def test_functions_may_say_what_values_of_a_class_look_like(self):
        code = """
class Base: pass
class Own(Base): pass
formatters = get_ipython().display_formatter.formatters
formatters["text/html"].for_type(Base, lambda value: "<b>own</b>")
formatters["text/latex"].for_type_by_name("__main__", "Own", lambda value: "$own$")
formatters["text/plain"].for_type(Own, lambda value, p, cycle: p.text("own"))
formatters["application/x-own"] = lambda value: "mine" if isinstance(value, Own) else None
Own()
"""
        result = self.run_code(code).results[0]
        self.assertEqual((result["html"], result["latex"], result["text"]), ("<b>own</b>", "$own$", "own"))
        self.assertEqual(result["extra"], {"application/x-own": "mine"})
        self.assertEqual(self.run_code("[Own(), 1]").text, "[own, 1]")
        self.assertEqual(self.run_code("formatters.pop('application/x-own')\n1").results[0]["extra"], {})

    def test_objects_without_a_text_of_their_own_are_named(self):
        self.assertRegex(self.run_code("class Plain: pass\nPlain()").text, "^<__main__.Plain at 0x[0-9a-f]+>$")
        self.assertRegex(self.run_code("[object()]").text, "^\\[<object at 0x[0-9a-f]+>\\]$")
        self.assertEqual(self.run_code("def f(x, y=1): pass\nf").text, "<function __main__.f(x, y=1)>")
        self.assertEqual(self.run_code("len").text, "<function len(obj, /)>")

    def test_raw_display_has_only_what_is_given(self):
        run = self.run_code("from IPython.display import display\ndisplay({'text/latex': r'\\text{Own}'}, raw=True)")
        self.assertEqual(run.results[0]["latex"], "\\text{Own}")
        self.assertNotIn("text", run.results[0])

    def test_long_values_are_laid_out_and_cut(self):
        self.assertEqual(self.run_code("{'b': 1, 'a': {3, 1}}").text, "{'b': 1, 'a': {1, 3}}")
        self.assertTrue(self.run_code("list(range(40))").text.startswith("[0,\n 1,\n 2,"))
        self.assertTrue(self.run_code("list(range(5000))").text.endswith("999,\n ...]"))
        self.assertEqual(self.run_code("l = [1]\nl.append(l)\nl").text, "[1, [...]]")

    def test_the_value_of_the_last_run_has_a_name(self):
        self.run_code("6 * 7")
        self.assertEqual(self.run_code("_ + 1").text, "43")

    def test_variables_of_one_run_are_gone_after_it(self):
        read = "import os\n[os.environ.get('OWN'), os.environ.get('SANDBOX_WIDE')]"
        self.assertEqual(self.run_code(read, env_vars={"OWN": "1", "SANDBOX_WIDE": "other"}).text, "['1', 'other']")
        self.assertEqual(self.run_code(read).text, "[None, 'given']")

    def test_what_a_cell_defines_can_be_pickled(self):
        code = "import pickle\nclass Thing:\n    pass\ntype(pickle.loads(pickle.dumps(Thing()))).__name__"
        self.assertEqual(self.run_code(code).text, "Thing")

    def test_warnings_and_logs_go_to_stderr(self):
        run = self.run_code("import warnings, logging\nwarnings.warn('careful')\nlogging.warning('logged')")
        self.assertIn("careful", run.stderr)
        self.assertIn("logged", run.stderr)

    def test_odd_text_survives(self):
        self.assertEqual(self.run_code("print('ä€😀\\x00\\ud800')").stdout[:4], "ä€😀\x00")


if __name__ == "__main__":
    unittest.main()
