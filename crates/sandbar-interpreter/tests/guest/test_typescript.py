import json
import unittest

from served import Served


class TypeScript(Served):
    needs = ("node",)

    def ts(self, code, **more):
        return self.run_code(code, language="ts", **more)

    def values(self, code):
        """What a cell of TypeScript comes to; its error is the test's."""
        run = self.ts(code)
        self.assertIsNone(run.error, code)
        return run.results[0].get("json", run.text)

    def test_types_of_variables_and_functions_are_taken_out(self):
        self.assertEqual(self.ts('const message: string = "Hello World!"; console.log(message)').stdout, "Hello World!\n")
        self.assertEqual(self.ts("\nfunction subtract(x: number, y: number): number {\n  return x - y;\n}\n\nsubtract(1, 2)\n").text, "-1")
        code = """
const { a, b: [c] }: { a: number; b: string[] } = { a: 1, b: ['x'] }, n: number[][] = [[2]]
let later!: Map<string, Array<number>>, nothing: (() => void) | null = null
later = new Map<string, Array<number>>([['k', [3]]])
const both = <T, U = T>(one: T, other?: U, ...more: any[]): [T, U] => [one, other as U]
async function load<T>(this: void, value: T | Promise<T>, { deep = 1 }: { deep?: number } = {}): Promise<{ value: T; deep: number }> {
  return { value: await value, deep }
}
;[a, c, n[0]![0], later.get('k')![0], both<number, string>(4, 'y'), await load<number>(5)]
"""
        self.assertEqual(self.values(code), [1, "x", 2, 3, [4, "y"], {"value": 5, "deep": 1}])

    def test_declarations_of_types_vanish(self):
        code = """
interface Named<T extends object = {}> extends Array<T>, Object { name: string; rename?(to: string): void; [key: string]: unknown }
export type Kind = 'one' | `two-${string}` | { nested: Kind[] }
type Result<T> =
  | { ok: true; value: T }
  | { ok: false }
type Inner<T> = T extends Promise<infer U> ? U : T extends (...given: any[]) => infer R ? R : never
declare const outside: string
declare function elsewhere(a: number): void
declare module 'there' { export const x: number }
import type { Nothing } from './nowhere'
function over(a: string): string
function over(a: number): number
function over(a: any): any { return a }
const told = (result: Result<number>): string => { switch (result.ok) { case true: return `${result.value}`; default: return 'no' } }
;[told({ ok: true, value: 1 }), told({ ok: false }), over(2)]
"""
        self.assertEqual(self.values(code), ["1", "no", 2])

    def test_classes_keep_what_is_not_a_type(self):
        code = """
abstract class Shape<T = number> {
  private static readonly made: string[] = []
  protected abstract area(): number
  declare ghost: string
  label?: string
  #secret: number = 7
  [key: string]: unknown
  constructor(public readonly name: string, protected size: T, plain?: string) { Shape.made.push(name) }
  get told(): string { return `${this.name}: ${this.area()} ${this.#secret}` }
  static list(): string[] { return Shape.made }
  doubled = (by: number): number => this.area() * by
  async *each<U>(...all: U[]): AsyncGenerator<U> { yield* all }
}
class Square extends Shape<number> implements Iterable<number>, Other {
  constructor(side: number) { super('square', side); this.checked = true }
  checked: boolean = false
  protected override area(): number { return this.size ** 2 }
  *[Symbol.iterator](): IterableIterator<number> { yield this.size }
}
const square = new Square(3)
;[square.told, Shape.list(), square.doubled(2), [...square], square.checked, 'label' in square]
"""
        self.assertEqual(self.values(code), ["square: 9 7", ["square"], 18, [3], True, False])

    def test_enums_are_objects(self):
        self.ts("enum Color { Red, Green = 5, Blue, Name = 'x', Both = Red | Green }\nexport const enum Small { A = 1 << 2 }")
        self.assertEqual(self.values("[Color.Red, Color.Blue, Color[5], Color.Name, Color.Both, Small.A]"), [0, 6, "Both", "x", 5, 4])

    def test_casts_and_checks_of_values_vanish(self):
        code = """
const list = ['a', 'b'] as const
const picked = (list as readonly string[]).map<string>((text): string => text!.toUpperCase()).filter((t): t is string => t != null)
const chosen = list.length > 1 ? (picked as string[]) : ([] as string[])
const arrow = list.length ? (x: number): number => x + 1 : null
const cast = <number>1, held = { as: 1, type: 'x', method<T>(x: T): T { return x } } satisfies object
try { throw new Error('no') } catch (error: unknown) { picked.push((error as Error).message) }
for (const [key, value] of Object.entries({ k: 1 }) as [string, number][]) picked.push(`${key}${value as any}`)
;[chosen, arrow!(1), cast, held.as, held.method<string>('m')]
"""
        self.assertEqual(self.values(code), [["A", "B", "no", "k1"], 2, 1, 1, "m"])

    def test_plain_javascript_stays_as_it_is(self):
        code = """
const a = 1, b = 3, c = 2, f = (...all) => all.length, o = { b: (a), as: a ? b : c, class: 1, f(x) { return x } }
outer: for (const x of [1]) { switch (x) { case f(1): { break outer } default: } }
;[a < b, f(a < b, c > (a)), a ? (b) : (c), a ? b : (x) => x, o.f(!a), `${!!a}`, a<b&&c>(a), /<T>(x)/.source]
"""
        self.assertEqual(self.values(code.replace("f(a < b, c > (a))", "f(a < b, c > a)")), [True, 2, 3, 3, False, "true", True, "<T>(x)"])

    def test_lines_stay_where_they_were(self):
        error = self.ts("interface A {\n  a: string\n}\nconst x: A = null as any\nx.a").error
        self.assertEqual(error["name"], "TypeError")
        self.assertIn("Cell In[", error["traceback"])
        self.assertIn("]:5", error["traceback"])

    def test_what_cannot_be_compiled_is_shown_as_it_was_left(self):
        error = self.ts("const q: number = ;").error
        self.assertEqual(error["name"], "SyntaxError")
        self.assertIn("Unexpected token ';'", error["value"])

    def test_javascript_accepts_types_too(self):
        context = self.context(language="typescript", cwd=self.directory)
        self.assertEqual(context["language"], "typescript")
        self.ts("const here: number = 1")
        self.assertEqual(self.run_code("typeof here + process.cwd()", context_id=context["id"]).text, "undefined" + self.directory)
        self.assertEqual(self.ts("here").text, "1")
        self.assertEqual(self.run_code("const typed: number = 4; typed", language="js").text, "4")
        self.assertIn("typescript", [each["language"] for each in json.loads(self.ask("GET", "/contexts")[1])])

    def test_enums_and_namespaces_where_node_strips_types(self):
        code = "const { stripTypeScriptTypes } = require('module'); Boolean(stripTypeScriptTypes)"
        self.assertEqual(self.ts("enum Color { Red, Green = 5 }\nColor.Green").text, "5")
        if self.ts(code).text == "true":
            run = self.ts("namespace Shapes { export const sides = 4 }\nconst n: number = Shapes.sides; n")
            self.assertEqual((run.error, run.text, run.stderr), (None, "4", ""))


if __name__ == "__main__":
    unittest.main()
