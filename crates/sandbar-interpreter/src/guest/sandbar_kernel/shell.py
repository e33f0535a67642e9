"""The object `get_ipython()` returns: shell lines, magics, and what packages expect of it."""

import re
import subprocess
import sys
import traceback
import types

from sandbar_kernel.formatters import FORMATTERS
from sandbar_kernel.magics import Magics, shell_program


class UsageError(Exception):
    """A magic that is not known, or not used right."""


class Lines(list):
    """The output of a shell line: a list of lines, or one text."""

    @property
    def n(self):
        return "\n".join(self)

    l = property(list)
    nlstr = n

    @property
    def s(self):
        return " ".join(self)


class Events(object):
    """Callbacks of packages before and after a cell."""

    def __init__(self):
        self.callbacks = {}

    def register(self, event, function):
        functions = self.callbacks.setdefault(event, [])
        if function not in functions:
            functions.append(function)

    def unregister(self, event, function):
        self.callbacks.get(event, []).remove(function)

    def trigger(self, event, *arguments):
        for function in list(self.callbacks.get(event, [])):
            try:
                function(*arguments)
            except Exception:
                traceback.print_exc()


class ZMQInteractiveShell(Magics):
    """Named as in notebooks: packages check the class name to detect one."""

    def __init__(self, namespace, run):
        self.user_ns = self.user_global_ns = namespace
        self.events = Events()
        self.display_formatter = types.SimpleNamespace(formatters=FORMATTERS)
        # Packages use these to detect a terminal; the values have no other effect here.
        self.kernel = types.SimpleNamespace()
        self.config = {}
        self.colors = "NoColor"
        self._run = run
        self._directories = []

    def push(self, variables, **_):
        self.user_ns.update(variables)

    def register_magic_function(self, function, magic_kind="line", magic_name=None):
        prefix = "magic_" if magic_kind == "line" else "cell_magic_"
        setattr(self, prefix + (magic_name or function.__name__), function)

    def run_cell(self, code, **_):
        return self._run(code)

    ex = run_cell

    def ev(self, code):
        return eval(code, self.user_ns)

    def system(self, command):
        """Runs a shell line; its output is the cell's, its status `_exit_code`."""
        process = subprocess.Popen(
            [shell_program(), "-c", self.expanded(command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            for text in iter(lambda: process.stdout.read1(8192), b""):
                sys.stdout.write(text.decode("utf-8", "replace"))
            self.user_ns["_exit_code"] = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()

    def getoutput(self, command):
        done = subprocess.run(
            [shell_program(), "-c", self.expanded(command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return Lines(done.stdout.decode("utf-8", "replace").splitlines())

    def expanded(self, text):
        """Expands `{expression}` and `$name` to Python values, if they are defined."""

        def of_expression(found):
            try:
                return str(eval(found.group(1), self.user_ns))
            except Exception:
                return found.group()

        def of_name(found):
            name = found.group(1)
            known = name in self.user_ns and not name.startswith("_")
            return str(self.user_ns[name]) if known else found.group()

        text = re.sub(r"(?<!\$)\{([^{}\n]+)\}", of_expression, text)
        return re.sub(r"(?<!\$)\$([A-Za-z]\w*)", of_name, text)

    def has_magic(self, name):
        return hasattr(self, "magic_" + name)

    def run_line_magic(self, name, text, *_):
        magic = getattr(self, "magic_" + name, None)
        if magic is None:
            raise UsageError("Line magic function `%%%s` not found." % name)
        return magic(text)

    def run_cell_magic(self, name, text, cell):
        magic = getattr(self, "cell_magic_" + name, None)
        if magic is None:
            raise UsageError("Cell magic `%%%%%s` not found." % name)
        return magic(text, cell)

    magic = run_line_magic
