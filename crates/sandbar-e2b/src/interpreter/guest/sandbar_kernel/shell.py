"""What `get_ipython()` gives: shell lines, and the magics people use."""

import os
import re
import shlex
import subprocess
import sys
import time
import timeit
import traceback
import types

from sandbar_kernel.formatters import FORMATTERS


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
    """What packages want to be called at: before and after a cell."""

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


class Shell(object):
    def __init__(self, namespace, run):
        self.user_ns = self.user_global_ns = namespace
        self.events = Events()
        self.display_formatter = types.SimpleNamespace(formatters=FORMATTERS)
        # Packages ask for these to find out whether they are in a terminal; what they say means nothing here.
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
            [_shell(), "-c", self._expanded(command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            for text in iter(lambda: process.stdout.read1(8192), b""):
                sys.stdout.write(text.decode("utf-8", "replace"))
                sys.stdout.flush()
            self.user_ns["_exit_code"] = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()

    def getoutput(self, command):
        done = subprocess.run(
            [_shell(), "-c", self._expanded(command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return Lines(done.stdout.decode("utf-8", "replace").splitlines())

    def _expanded(self, text):
        """`{expression}` and `$name` mean Python's values, where they mean something."""

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

    def magic_pip(self, text):
        self.system("%s -m pip %s" % (shlex.quote(sys.executable), text))

    def magic_cd(self, text):
        target = text.strip().strip("'\"") or "~"
        if target == "-":
            target = self._directories.pop() if self._directories else "."
        before = os.getcwd()
        os.chdir(os.path.expanduser(self._expanded(target)))
        self._directories.append(before)
        print(os.getcwd())

    def magic_pwd(self, _):
        return os.getcwd()

    def magic_ls(self, text):
        self.system("ls " + text)

    def magic_cat(self, text):
        self.system("cat " + text)

    def magic_mkdir(self, text):
        self.system("mkdir " + text)

    def magic_env(self, text):
        if not text:
            return dict(os.environ)
        name, separator, value = text.partition("=") if "=" in text else text.partition(" ")
        if not separator:
            return os.environ.get(name.strip())
        os.environ[name.strip()] = self._expanded(value.strip())
        print("env: %s=%s" % (name.strip(), os.environ[name.strip()]))

    magic_set_env = magic_env

    def magic_time(self, text):
        return self.cell_magic_time("", text)

    def magic_timeit(self, text):
        return self.cell_magic_timeit("", text)

    def magic_who(self, _):
        print("\t".join(sorted(name for name in self.user_ns if not name.startswith("_"))))

    def magic_run(self, text):
        import runpy

        arguments = shlex.split(text)
        before = sys.argv
        sys.argv = arguments
        try:
            ran = runpy.run_path(arguments[0], run_name="__main__")
        finally:
            sys.argv = before
        self.user_ns.update({name: value for name, value in ran.items() if not name.startswith("__")})

    def _nothing(self, *_):
        """Settings of notebooks that mean nothing here."""

    enable_gui = enable_matplotlib = _nothing
    magic_matplotlib = magic_load_ext = magic_reload_ext = magic_autoreload = magic_config = magic_pylab = _nothing

    def cell_magic_time(self, _, cell):
        wall, used = time.time(), time.process_time()
        try:
            return self._run(cell)
        finally:
            print("CPU times: total: %.3g s" % (time.process_time() - used))
            print("Wall time: %.3g s" % (time.time() - wall))

    def cell_magic_timeit(self, _, cell):
        number, taken = timeit.Timer(cell, globals=self.user_ns).autorange()
        print("%.3g s per loop (%d loops)" % (taken / number, number))

    def cell_magic_capture(self, name, cell):
        import contextlib
        import io

        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            self._run(cell)
        if name:
            captured = type("CapturedIO", (), {"stdout": output.getvalue(), "stderr": errors.getvalue()})()
            self.user_ns[name.split()[-1]] = captured

    def cell_magic_writefile(self, text, cell):
        append = text.startswith("-a ")
        path = os.path.expanduser((text[3:] if append else text).strip())
        exists = os.path.exists(path)
        with open(path, "a" if append else "w") as file:
            file.write(cell if cell.endswith("\n") else cell + "\n")
        print(("Appending to %s" if append else "Overwriting %s" if exists else "Writing %s") % path)

    cell_magic_file = cell_magic_writefile

    def cell_magic_bash(self, _, cell):
        self._script(_shell(), cell)

    cell_magic_sh = cell_magic_bash

    def cell_magic_script(self, text, cell):
        self._script(text, cell)

    def cell_magic_javascript(self, _, cell):
        self.user_ns["display"]({"application/javascript": cell}, raw=True)

    cell_magic_js = cell_magic_javascript

    def cell_magic_html(self, _, cell):
        self.user_ns["display"]({"text/html": cell}, raw=True)

    def cell_magic_markdown(self, _, cell):
        self.user_ns["display"]({"text/markdown": cell}, raw=True)

    def _script(self, program, cell):
        # Straight to the plain pipes: order and streams are kept, and nothing is held back.
        sys.stdout.flush()
        process = subprocess.Popen(shlex.split(program), stdin=subprocess.PIPE)
        process.communicate(cell.encode())
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, program)


def _shell():
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
