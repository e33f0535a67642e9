"""Contexts: each runs code sequentially and keeps its state between runs."""

import collections
import os
import threading
import time
import uuid

from sandbar_server.kernel import DONE, Died, Kernel, LanguageMissing, program_of

# Interval at which a queued request checks whether its client is still connected.
LOOK_INTERVAL = 0.25


class ClientGone(Exception):
    """The client has disconnected."""


class Context(object):
    def __init__(self, language, cwd, home, env, sources):
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self._home = home
        self.removed = False
        self._env = env
        self._sources = sources
        self._kernel = None
        self._kernel_lock = threading.Lock()
        self._turns = Turns()
        program_of(language)

    def describe(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    def start(self):
        """Returns the kernel, which is started if none is alive."""
        with self._kernel_lock:
            if self.removed:
                raise KeyError(self.id)
            if self._kernel is None or not self._kernel.alive:
                self._kernel = Kernel(self.language, self._directory(), self._env, self._sources)
            return self._kernel

    def _directory(self):
        # E2B creates a Python context even for a missing directory, which clients create
        # afterwards.
        is_there = os.path.isdir(self.cwd) or self.language != "python"
        return self.cwd if is_there else self._home

    def restart(self):
        with self._kernel_lock:
            kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.stop()
        self.start()

    def remove(self):
        with self._kernel_lock:
            self.removed = True
            kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.stop()

    def stand_in_line(self, client_is_there):
        """Returns a place in the queue, which is held until its `with` block ends."""
        return Turn(self._turns, client_is_there)

    def execute(self, code, env, turn):
        """Yields the lines of the response. If the reader disconnects, the code is interrupted."""
        turn.wait()
        try:
            kernel = self.start()
        except KeyError:
            yield unexpected_end()
            return
        except OSError as error:
            yield failure("ContextStartError", "The context could not be started: %s" % error)
            return
        listener = kernel.execute(code, env)
        over = False
        try:
            yield {"type": "number_of_executions", "execution_count": kernel.executions}
            while not over:
                event = listener.get(LOOK_INTERVAL)
                if event is DONE:
                    over = True
                elif isinstance(event, Died):
                    over = True
                    yield self._end_of_kernel(event)
                elif event is not None:
                    yield line_of(event)
                elif not turn.client_is_there():
                    raise ClientGone()
        finally:
            if not over:
                kernel.interrupt(listener)
            kernel.release(listener)

    def _end_of_kernel(self, died):
        if died.asked:
            return unexpected_end()
        # The state is lost and the next execution starts afresh; the SDKs know this name.
        return failure("ContextRestarting", "Context was restarted", "The process of the context ended: " + died.how)


class Turns(object):
    """Queue for the kernel: one execution at a time, in order of arrival."""

    def __init__(self):
        self._lock = threading.Lock()
        self._line = collections.deque()

    def join(self):
        ticket = threading.Event()
        with self._lock:
            if not self._line:
                ticket.set()
            self._line.append(ticket)
        return ticket

    def leave(self, ticket):
        with self._lock:
            self._line.remove(ticket)
            if self._line:
                self._line[0].set()


class Turn(object):
    """A place in the queue."""

    def __init__(self, turns, client_is_there):
        self._turns = turns
        self.client_is_there = client_is_there

    def __enter__(self):
        self._ticket = self._turns.join()
        return self

    def wait(self):
        while not self._ticket.wait(LOOK_INTERVAL) and self.client_is_there():
            pass
        if not self.client_is_there():
            raise ClientGone()

    def __exit__(self, *_):
        self._turns.leave(self._ticket)


class Contexts(object):
    """All contexts of the sandbox. Python and JavaScript have a default context each."""

    def __init__(self, sources, environment):
        self._sources = sources
        self._environment = environment
        self._lock = threading.Lock()
        self._contexts = collections.OrderedDict()
        self._defaults = {}
        self.home = next((path for path in ("/home/user", environment.get("HOME", "")) if os.path.isdir(path)), "/")
        for language in ("python", "javascript"):
            try:
                self._default(language)
            except LanguageMissing:
                pass
        # The first code is most often Python: start its kernel ahead.
        self._default("python").start()

    def create(self, language, cwd):
        context = self._make(language, cwd or self.home)
        # Started now, so that a missing directory is reported and the first run does not wait.
        context.start()
        with self._lock:
            self._contexts[context.id] = context
        return context

    def _make(self, language, cwd):
        return Context(language, cwd, self.home, self._environment, self._sources)

    def find(self, id):
        with self._lock:
            if id == "default":
                id = self._defaults.get("python")
            return self._contexts.get(id)

    def default(self, language):
        with self._lock:
            return self._default(language)

    def _default(self, language):
        context = self._contexts.get(self._defaults.get(language))
        if context is None:
            context = self._make(language, self.home)
            self._contexts[context.id] = context
            self._defaults[language] = context.id
        return context

    def all(self):
        with self._lock:
            return list(self._contexts.values())

    def remove(self, context):
        with self._lock:
            self._contexts.pop(context.id, None)
        context.remove()


# Names of formats on the wire, by MIME type.
FORMATS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


def line_of(event):
    """Converts an event of a kernel to the format of the SDKs."""
    if event["type"] in ("stdout", "stderr"):
        return {"type": event["type"], "text": event["text"], "timestamp": time.time_ns()}
    if event["type"] == "error":
        return failure(event["name"], event["value"], event["traceback"])
    line, extra = {"type": "result"}, {}
    for kind, value in event["data"].items():
        if value is None:
            continue
        if kind not in FORMATS:
            extra[kind] = value
        elif FORMATS[kind] == "text" and len(value) > 1 and value[0] == value[-1] == "'":
            # The text of a string is the string.
            line["text"] = value[1:-1]
        else:
            line[FORMATS[kind]] = value
    line["extra"] = extra
    line["is_main_result"] = event["main"]
    return line


def failure(name, value, traceback=""):
    return {"type": "error", "name": name, "value": value, "traceback": traceback}


def unexpected_end():
    return failure(
        "UnexpectedEndOfExecution",
        "Connection to the execution was closed before the execution was finished",
    )
