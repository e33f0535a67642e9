import unittest

from served import Served


class JavaScript(Served):
    needs = ("node",)

    def js(self, code, **more):
        return self.run_code(code, language="js", **more)

    def test_variables_stay_between_runs(self):
        self.js("const x = 1; let y = 2; var z = 3; function f() { return 4 } class A { five() { return 5 } }")
        self.assertEqual(self.js("[x, y, z, f(), new A().five()]").text, "[ 1, 2, 3, 4, 5 ]")

    def test_names_may_be_declared_again(self):
        for value in ("1", "2"):
            self.assertIsNone(self.js("const again = %s; let more = again; class Twice {}; function g() {}" % value).error)
        self.assertEqual(self.js("again + more").text, "4")
        self.assertEqual(self.js("const again = await Promise.resolve(9); again").text, "9")
        self.assertEqual(self.js("let again = 10\nagain").text, "10")
        self.assertIsNone(self.js("function g() { return 1 }; await null").error)
        self.assertEqual(self.js("g()").text, "1")

    def test_patterns_declare_all_their_names(self):
        code = "const {a, b: [c, d = 5], ['k' + 1]: e, ...rest} = await Promise.resolve({a: 1, b: [2], k1: 3, z: 4}), last = 6"
        self.js(code)
        self.assertEqual(self.js("[a, c, d, e, rest.z, last]").text, "[ 1, 2, 5, 3, 4, 6 ]")

    def test_functions_and_later_cells_share_variables(self):
        self.js("let n = 0; function count() { n += 1 }; await null")
        self.assertEqual(self.js("count(); count(); n").text, "2")
        self.assertEqual(self.js("n = 10; count(); n").text, "11")

    def test_console_goes_to_its_streams(self):
        run = self.js("console.log('out', {a: 1}); console.error('err'); console.table([[1]]); process.stdout.write('raw')")
        self.assertTrue(run.stdout.startswith("out { a: 1 }\n"))
        self.assertTrue(run.stdout.endswith("raw"))
        self.assertEqual(run.stderr, "err\n")

    def test_objects_are_text_and_json(self):
        result = self.js("({a: 1, b: ['x']})").results[0]
        self.assertEqual((result["text"], result["json"]), ("{ a: 1, b: [ 'x' ] }", {"a": 1, "b": ["x"]}))
        self.assertEqual(self.js("{ a: 1 }").text, "{ a: 1 }")
        self.assertNotIn("json", self.js("new Map([[1, 2]])").results[0])
        self.assertEqual(self.js("'plain'").text, "plain")
        self.assertEqual(self.js("const o = {}; o.self = o; o").error, None)

    def test_an_object_may_say_what_it_looks_like(self):
        shown = "{'text/plain': 'Hello', 'text/html': '<h1>Hello</h1>', 'x/own': 1}"
        result = self.js("\n   {\n  [Symbol.for('Jupyter.display')]() {\n    return %s\n  }\n}\n" % shown).results[0]
        self.assertEqual((result["text"], result["html"], result["extra"]), ("Hello", "<h1>Hello</h1>", {"x/own": 1}))
        self.assertEqual(self.js("({[Symbol.for('Jupyter.display')]: 1, a: 2})").results[0]["json"], {"a": 2})

    def test_undefined_is_no_result(self):
        self.assertEqual(self.js("undefined").results, [])
        self.assertEqual(self.js("const quiet = 1").results, [])

    def test_await_works_at_the_top(self):
        self.assertEqual(self.js("\n  async function main() {\n    return 'Hello'\n  }\n\n  await main()\n").text, "Hello")
        self.assertEqual(self.js("await (async () => 5)()").text, "5")
        self.assertEqual(self.js("let s = 0\nfor (const p of [1, 2]) { s += await p }\ns").text, "3")
        self.assertEqual(self.js("if (await true) { console.log('yes') } else { }").stdout, "yes\n")
        self.assertEqual(self.js("async function* g() { yield 1 }\nfor await (const v of g()) console.log(v)").stdout, "1\n")

    def test_brackets_around_the_last_value_are_no_trouble(self):
        self.assertEqual(self.js("(await 5)").text, "5")
        self.assertEqual(self.js("await 1;\n(\n// said\n(2, 3)\n)").text, "3")
        self.assertEqual(self.js("const z = await 1; /* c */ ({ z }) // end").text, "{ z: 1 }")
        self.assertIn("Cell In[", self.js("await 1;\n(\nnull.x)").error["traceback"])

    def test_variables_of_blocks_are_of_the_cell(self):
        self.assertIsNone(self.js("if (await true) { var inner = 1; let own = 2 }\nfor (var i = 0; i < 3; i++) await i").error)
        self.assertEqual(self.js("[inner, i, typeof own]").text, "[ 1, 3, 'undefined' ]")
        self.js("{ var sync = 1 }\nfor (const each of [1]) { var found = each }")
        self.assertEqual(self.js("const sync = 5; [sync, found]").text, "[ 5, 1 ]")

    def test_what_is_exported_is_declared(self):
        self.js("export const shared = 1\nexport function made() { return shared }\nexport class Kind {}")
        self.assertEqual(self.js("[made(), typeof Kind]").text, "[ 1, 'function' ]")

    def test_identifiers_like_keywords_are_not_statements(self):
        self.assertEqual(self.js("const o = { class: 1, import: 2, await: 3, const: 4 }\no.class + o.import + o.await + o.const").text, "10")
        self.assertEqual(self.js("label: for (const n of [1]) { continue label }\n`const ${'let'} class`").text, "const let class")
        self.assertEqual(self.js("class Base {}\nclass Next extends (await Base) { #p = 1; static { this.q = 2 } }\nNext.q").text, "2")

    def test_a_promise_as_the_last_value_is_waited_for(self):
        run = self.js("(async () => { await null; console.log('inside'); return 3 })()")
        self.assertEqual((run.stdout, run.text), ("inside\n", "3"))

    def test_modules_are_imported_and_required(self):
        code = "import fs, { readFileSync as read } from 'fs'\nimport * as path from 'node:path'\nimport 'os'\n[fs.readFileSync === read, path.join('a', 'b')]"
        self.assertEqual(self.js(code).text, "[ true, 'a/b' ]")
        self.assertEqual(self.js("path.basename('/x/y')").text, "y")
        self.assertEqual(self.js("const { join } = await import('path'); join('c', 'd')").text, "c/d")
        self.assertEqual(self.js("typeof require('os').cpus").text, "function")

    def test_errors_have_name_value_and_traceback(self):
        error = self.js("function f() { throw new TypeError('bad') }\nf()").error
        self.assertEqual((error["name"], error["value"]), ("TypeError", "bad"))
        self.assertIn("at f (Cell In[", error["traceback"])
        self.assertNotIn("node:", error["traceback"])
        self.assertEqual(self.js("await Promise.reject(new RangeError('far'))").error["name"], "RangeError")
        self.assertEqual(self.js("throw 'text'").error["value"], "text")
        self.assertEqual(self.js("nosuch").error["value"], "nosuch is not defined")

    def test_an_error_that_is_a_value_shows_no_more_than_the_cell(self):
        text = self.js("[new Error('kept')][0]").text
        self.assertTrue(text.startswith("Error: kept\n    at Cell In["), text)
        self.assertNotIn("node:", text)

    def test_syntax_errors_show_what_was_written(self):
        error = self.js("const q = ;").error
        self.assertEqual(error["name"], "SyntaxError")
        self.assertIn("const q = ;", error["traceback"])

    def test_uncaught_errors_of_timers_end_nothing(self):
        self.js("var alive = 1; setTimeout(() => { throw new Error('later') }, 0); 1")
        run = self.js("await new Promise((done) => setTimeout(done, 20)); alive")
        self.assertEqual(run.text, "1")

    def test_brackets_in_texts_and_patterns_confuse_nothing(self):
        self.assertEqual(self.js("const t = `a${`b${1 + 1}`}}`, r = /[/}]\\/'/.test(\"/'\")\n;[t, r, await 1]").text, "[ 'ab2}', false, 1 ]")
        self.assertEqual(self.js("// const {\nlet u = 4 / 2 / 1 /* ) */\nawait u").text, "2")

    def test_variables_of_one_run_are_gone_after_it(self):
        self.assertEqual(self.js("process.env.OWN", env_vars={"OWN": "1"}).text, "1")
        self.assertEqual(self.js("[process.env.OWN, process.env.SANDBOX_WIDE]").text, "[ undefined, 'given' ]")

    def test_a_context_works_in_its_directory(self):
        context = self.context(language="javascript", cwd=self.directory)
        self.assertEqual(self.run_code("process.cwd()", context_id=context["id"]).text, self.directory)


if __name__ == "__main__":
    unittest.main()
