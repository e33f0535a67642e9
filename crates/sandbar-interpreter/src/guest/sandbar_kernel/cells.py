"""Parses a cell: indentation, shell lines and magics, and its last expression."""

import ast
import linecache
import re

SHELL_LINE = re.compile(r"^(\s*)(?:([\w.,\s\[\]'\"]+?)\s*=\s*)?(!!?|%)\s*(\S.*)$")
CELL_MAGIC = re.compile(r"^%%(\w+)[ \t]*(.*)$")
HELP_LINE = re.compile(r"^\s*(?:\?{1,2}[\w.]+|[\w.]+\?{1,2})\s*$")
BARE_MAGIC = re.compile(r"^\s*(\w+)(?:[ \t]+([^=(\[.,+*|&<>].*))?$")


def parse(code, name, is_magic=lambda word: False):
    """Returns the statements of a cell and, if its value is wanted, the last expression."""
    bare = BARE_MAGIC.match(code.strip("\n"))
    # `pip install x` or `pwd`, if that is all there is.
    if bare and is_magic(bare.group(1)):
        code = "%" + code.strip()
    code = to_python(code, name)
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = compile(code, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not _is_silenced(code):
        last = ast.Expression(tree.body.pop().value)
    return tree, last


def to_python(code, name="<cell>"):
    code = _dedent(code.replace("\r\n", "\n"))
    first, _, rest = code.partition("\n")
    magic = CELL_MAGIC.match(first)
    if magic:
        return "get_ipython().run_cell_magic(%r, %r, %r)" % (magic.group(1), magic.group(2).strip(), rest)
    lines = code.split("\n")
    # Valid Python is never changed: only a line that does not parse may be a shell line. Each
    # round turns one such line into a call, so the loop terminates.
    for _ in range(len(lines)):
        try:
            compile("\n".join(lines), name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            break
        except SyntaxError as error:
            if not _rewrite_last_until(lines, error.lineno or len(lines)):
                break
        except ValueError:
            break
    return "\n".join(lines)


def _dedent(code):
    """Removes leading empty lines, and the indentation of the first line from all lines."""
    code = re.sub(r"\A(?:[ \t]*\n)+", "", code)
    indent = re.match(r"[ \t]*", code).group()
    if indent:
        code = re.sub(r"(?m)^" + indent, "", code)
    return code


def _rewrite_last_until(lines, at):
    """Turns the last shell line up to a line into a call; returns whether there was one."""
    for index in range(min(at, len(lines)) - 1, -1, -1):
        line = lines[index]
        if HELP_LINE.match(line) and index == at - 1:
            target = line.strip().strip("?")
            lines[index] = line[: len(line) - len(line.lstrip())] + "help(%s)" % target
            return True
        found = SHELL_LINE.match(line)
        if not found:
            continue
        end = index
        text = found.group(4)
        # A backslash continues the line; joined lines become empty ones, to keep line numbers in
        # tracebacks.
        while text.endswith("\\") and end + 1 < len(lines):
            end += 1
            text = text[:-1] + lines[end]
            lines[end] = ""
        lines[index] = found.group(1) + _call(found.group(2), found.group(3), text)
        return True
    return False


def _call(target, mark, text):
    if mark == "%":
        magic, _, rest = text.partition(" ")
        call = "get_ipython().run_line_magic(%r, %r)" % (magic, rest.strip())
    elif mark == "!!" or target:
        call = "get_ipython().getoutput(%r)" % text
    else:
        call = "get_ipython().system(%r)" % text
    return "%s = %s" % (target, call) if target else call


def _is_silenced(code):
    """Returns whether a semicolon at the end suppresses the value."""
    lines = [line for line in code.split("\n") if line.strip() and not line.strip().startswith("#")]
    return bool(lines) and re.sub(r"\s#[^'\"]*$", "", lines[-1]).rstrip().endswith(";")
