"""The Python kernel: runs cells one after another in one namespace."""

import ast
import asyncio
import builtins
import inspect
import json
import os
import signal
import sys
import threading
import types

from sandbar_kernel import cells, failure, hooks
from sandbar_kernel.display import Displayer
from sandbar_kernel.shell import ZMQInteractiveShell
from sandbar_kernel.streams import Line, Output

FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class StdinNotImplementedError(NotImplementedError):
    """Raised for `input()`: a cell has no standard input."""


class Kernel(object):
    def __init__(self, line):
        self.line = line
        self.loop = asyncio.new_event_loop()
        self.displayer = Displayer(line)
        self.module = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self.shell = ZMQInteractiveShell(self.names, self.run_nested)
        # The task of a cell that awaits something, and the number of the cell that runs.
        self.task = None
        self.running = None
        self.was_interrupted = False

    def prepare(self):
        sys.modules["__main__"] = self.module
        sys.argv = [""]
        sys.stdout, sys.stderr = Output(self.line, "stdout", 1), Output(self.line, "stderr", 2)
        builtins.input = no_input
        builtins.display = self.displayer.display
        builtins.get_ipython = lambda: self.shell
        self.names.update(
            __builtins__=builtins, display=self.displayer.display, get_ipython=builtins.get_ipython, In=[""], Out={}
        )
        hooks.install(self.displayer, self.shell)
        asyncio.set_event_loop(self.loop)
        asyncio.run = run_beside(self.loop, asyncio.run)
        signal.signal(signal.SIGINT, self.interrupted)

    def interrupted(self, _, frame):
        if self.running is None:
            return
        self.was_interrupted = True
        while frame is not None:
            if frame.f_code is Kernel.execute.__code__:
                return self.line.interrupt()
            frame = frame.f_back
        # The cell waits in the event loop.
        if self.task is not None:
            self.task.cancel()
            self.loop._write_to_self()

    async def execute(self, request):
        number, env = request["id"], request["env"]
        name = "Cell In[%d]" % number
        before = {}
        self.line.current = number
        self.was_interrupted = False
        self.running = number
        try:
            before = {variable: os.environ.get(variable) for variable in env}
            if env:
                os.environ.update(env)
            self.names["In"].append(request["code"])
            self.shell.events.trigger("pre_execute")
            value = await self.run(request["code"], name)
            self.finish(number, value)
            self.shell.events.trigger("post_execute")
        except BaseException as error:
            self.running = None
            self.fail(error)
        finally:
            self.running = None
            try:
                restore(before)
            except Exception as error:
                # The cell replaced `os.environ`, for example.
                self.fail(error)
            for stream in (sys.__stdout__, sys.__stderr__):
                flush(stream)
            self.line.tell({"type": "done"})
            self.line.current = None

    def finish(self, number, value):
        if value is not None:
            self.names.update({"___": self.names.get("__"), "__": self.names.get("_"), "_": value, "_%d" % number: value})
            self.names["Out"][number] = value
            self.displayer.show(value, main=True)
        hooks.show_open_figures()

    def fail(self, error):
        if isinstance(error, asyncio.CancelledError) and self.was_interrupted:
            error = KeyboardInterrupt().with_traceback(error.__traceback__)
        self.line.tell(dict(failure.describe(error, is_ours), type="error"))
        try:
            hooks.show_open_figures()
        except BaseException:
            # The cell has failed already, and says why.
            pass

    async def run(self, code, name):
        """Runs a cell and returns the value of its last expression."""
        tree, last = cells.parse(code, name, self.is_magic)
        value = await self.evaluate(compile(tree, name, "exec", FLAGS))
        return value if last is None else await self.evaluate(compile(last, name, "eval", FLAGS))

    async def evaluate(self, code):
        value = eval(code, self.names)
        # Code with top-level `await` returns a coroutine to run. A coroutine that other code
        # created is a value.
        if not code.co_flags & inspect.CO_COROUTINE:
            return value
        self.task = asyncio.current_task()
        try:
            return await value
        finally:
            self.task = None

    def is_magic(self, name):
        """Returns whether a single word is a magic: only if it has no other meaning."""
        return self.shell.has_magic(name) and name not in self.names and not hasattr(builtins, name)

    def run_nested(self, code):
        """Runs a cell inside a cell, for cell magics; it cannot await."""
        tree, last = cells.parse(code, "Cell In[%s]" % self.running)
        exec(compile(tree, "Cell In[%s]" % self.running, "exec"), self.names)
        return None if last is None else eval(compile(last, "Cell In[%s]" % self.running, "eval"), self.names)


def restore(variables):
    """Sets environment variables back to what they were."""
    for name, text in variables.items():
        if text is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = text


def run_beside(loop, run):
    """`asyncio.run` that works in cells, which run inside a loop already."""

    def beside(*arguments, **options):
        if asyncio._get_running_loop() is not loop:
            return run(*arguments, **options)
        asyncio._set_running_loop(None)
        try:
            return run(*arguments, **options)
        finally:
            asyncio._set_running_loop(loop)
            asyncio.set_event_loop(loop)

    return beside


def no_input(prompt="", *_):
    raise StdinNotImplementedError("raw_input was called, but this frontend does not support input requests.")


def is_ours(path):
    return path.startswith("<") and "sandbar_kernel" in path or path == "<string>"


def flush(stream):
    try:
        stream.flush()
    except Exception:
        # A cell may have replaced or closed it.
        pass


def main(_):
    requests, events = int(sys.argv[3]), int(sys.argv[4])
    for descriptor in (requests, events):
        os.set_inheritable(descriptor, False)
    kernel = Kernel(Line(events))
    kernel.prepare()

    def read_requests():
        with os.fdopen(requests, "rb") as file:
            for request in file:
                asyncio.run_coroutine_threadsafe(kernel.execute(json.loads(request.decode())), kernel.loop)
        # The server is gone.
        os._exit(0)

    threading.Thread(target=read_requests, daemon=True).start()
    while True:
        try:
            kernel.loop.run_forever()
        except (KeyboardInterrupt, SystemExit):
            # An interrupt that came when the cell had just ended.
            pass
