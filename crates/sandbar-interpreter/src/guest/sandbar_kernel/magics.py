"""The magics people use: `%name` on a line, `%%name` over a cell."""

import contextlib
import getopt
import io
import os
import runpy
import shlex
import subprocess
import sys
import time
import timeit

# What a namespace has before a cell ran.
OWN_NAMES = ("In", "Out", "display", "get_ipython")


class Magics(object):
    """Needs a shell: its `system`, `expanded`, `run_cell` and `user_ns`."""

    def magic_pip(self, text):
        self.system("%s -m pip %s" % (shlex.quote(sys.executable), text))

    def magic_cd(self, text):
        is_quiet = text.split(" ")[0] == "-q"
        target = (text[2:] if is_quiet else text).strip().strip("'\"") or "~"
        if target == "-":
            target = self._directories.pop() if self._directories else "."
        before = os.getcwd()
        os.chdir(os.path.expanduser(self.expanded(target)))
        self._directories.append(before)
        if not is_quiet:
            print(os.getcwd())

    def magic_pwd(self, _):
        return os.getcwd()

    def magic_system(self, text):
        return self.getoutput(text)

    magic_sx = magic_system

    def magic_env(self, text):
        if not text:
            return dict(os.environ)
        name, separator, value = text.partition("=") if "=" in text else text.partition(" ")
        if not separator:
            return os.environ.get(name.strip())
        os.environ[name.strip()] = self.expanded(value.strip())
        print("env: %s=%s" % (name.strip(), os.environ[name.strip()]))

    magic_set_env = magic_env

    def magic_time(self, text):
        return self.cell_magic_time("", text)

    def magic_timeit(self, text):
        code = _options(text)[1]
        return self.cell_magic_timeit(text[: len(text) - len(code)], code)

    def _variables(self):
        return sorted(name for name in self.user_ns if not name.startswith("_") and name not in OWN_NAMES)

    # words-ok: the name of the magic in IPython.
    def magic_who(self, _):
        print("\t".join(self._variables()) or "Interactive namespace is empty.")

    # words-ok: the name of the magic in IPython.
    def magic_who_ls(self, _):
        return self._variables()

    def magic_whos(self, _):
        print("%-16s %-16s %s" % ("Variable", "Type", "Data/Info"))
        print("-" * 43)
        for name in self._variables():
            value = self.user_ns[name]
            print("%-16s %-16s %s" % (name, type(value).__name__, repr(value).replace("\n", " ")[:60]))

    def magic_reset(self, _):
        for name in self._variables():
            del self.user_ns[name]

    def magic_history(self, _):
        print("\n".join(self.user_ns["In"][1:]))

    magic_hist = magic_history

    def magic_run(self, text):
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
    magic_precision = magic_xmode = magic_pdb = magic_colors = magic_automagic = magic_autosave = _nothing

    def cell_magic_time(self, _, cell):
        wall, used = time.time(), time.process_time()
        try:
            return self.run_cell(cell)
        finally:
            print("CPU times: total: %.3g s" % (time.process_time() - used))
            print("Wall time: %.3g s" % (time.time() - wall))

    def cell_magic_timeit(self, text, cell):
        timer = timeit.Timer(cell, globals=self.user_ns)
        loops = int(dict(_options(text)[0]).get("-n", 0))
        number, taken = (loops, timer.timeit(loops)) if loops else timer.autorange()
        print("%.3g s per loop (%d loops)" % (taken / number, number))

    def cell_magic_capture(self, name, cell):
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            self.run_cell(cell)
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

    def cell_magic_bash(self, text, cell):
        self._script("%s %s" % (shell_program(), text), cell)

    cell_magic_sh = cell_magic_bash

    def cell_magic_system(self, _, cell):
        return self.getoutput(cell)

    cell_magic_sx = cell_magic_system

    def cell_magic_python(self, text, cell):
        self._script("%s - %s" % (shlex.quote(sys.executable), text), cell)

    cell_magic_python3 = cell_magic_python

    def cell_magic_script(self, text, cell):
        self._script(text, cell)

    def cell_magic_javascript(self, _, cell):
        self.user_ns["display"]({"application/javascript": cell}, raw=True)

    cell_magic_js = cell_magic_javascript

    def cell_magic_html(self, _, cell):
        self.user_ns["display"]({"text/html": cell}, raw=True)

    cell_magic_HTML = cell_magic_html

    def cell_magic_latex(self, _, cell):
        self.user_ns["display"]({"text/latex": cell}, raw=True)

    def cell_magic_svg(self, _, cell):
        self.user_ns["display"]({"image/svg+xml": cell}, raw=True)

    cell_magic_SVG = cell_magic_svg

    def cell_magic_markdown(self, _, cell):
        self.user_ns["display"]({"text/markdown": cell}, raw=True)

    def _script(self, program, cell):
        # Straight to the plain pipes: order and streams are kept, and nothing is held back.
        sys.stdout.flush()
        process = subprocess.Popen(shlex.split(program), stdin=subprocess.PIPE)
        process.communicate(cell.encode())
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, program)


def _program(name):
    """A magic that is a program of its name."""

    def run(self, text):
        self.system("%s %s" % (name, text))

    return run


for _name in ("ls", "ll", "cat", "mkdir", "rmdir", "rm", "cp", "mv", "man", "conda", "uv"):
    setattr(Magics, "magic_" + _name, _program("ls -l" if _name == "ll" else _name))


def _options(text):
    """The options of `%timeit`, and the code after them."""
    try:
        options, rest = getopt.getopt(text.split(" "), "n:r:p:tcqo")
    except getopt.GetoptError:
        return [], text
    return options, " ".join(rest)


def shell_program():
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
