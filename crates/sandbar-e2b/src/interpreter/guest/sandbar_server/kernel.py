"""One kernel: the process of a context, the pipes to it, and what comes out of it.

A kernel reads requests from one pipe and writes events to another, as lines of JSON (bash: see `bash/main.bash`). Its
plain stdout and stderr are pipes as well, so what programs it starts print is seen too. One thread reads all of them
for as long as the kernel lives: a kernel nobody listens to is never held up.
"""

import codecs
import json
import os
import queue
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

# How much output may wait for a slow reader, in messages of at most READ_SIZE bytes.
WAITING_MESSAGES = 256
READ_SIZE = 64 * 1024
# How long a kernel has to end its cell after SIGINT before it is killed.
INTERRUPT_GRACE = 3.0
# How much of its last words is told when a kernel ends by itself.
LAST_WORDS = 2048

# Runs the text of the kernel of JavaScript and TypeScript. In braces, so that its names are not taken; `import()` works only in a text
# given with `-e`, so it is handed over from here.
NODE_START = """{
const sources = JSON.parse(require('fs').readFileSync(%(sources)d));
const run = (path, given) => new Function(...Object.keys(given), sources[path])(...Object.values(given));
const load = (name) => run('node/' + name + '.js', {require, load});
const importModule = (name) => import(name);
run('node/main.js', {require, load, importModule, requests: %(requests)d, events: %(events)d, isTyped: %(typed)s});
}"""

# The end of the events of one execution, and why the kernel ended in the middle of one.
DONE = object()


class Died(object):
    """The kernel is gone and took the execution with it."""

    def __init__(self, asked, how):
        self.asked = asked
        self.how = how


class LanguageMissing(Exception):
    """The sandbox has no program for a language, or it is not offered at all."""


def program_of(language):
    """The program that runs a language here, or LanguageMissing."""
    if language == "python":
        return sys.executable or "python3"
    node = ("node", "nodejs")
    names = {"javascript": node, "typescript": node, "bash": ("bash",)}.get(language)
    if names is None:
        raise LanguageMissing(
            "Language %r is not offered here: use python, javascript, typescript or bash" % language
        )
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    raise LanguageMissing(
        "Language %r needs %r, which this sandbox does not have" % (language, names[0])
    )


class Kernel(object):
    """A running kernel. At most one execution is under way at any time; the context sees to that."""

    def __init__(self, language, cwd, env, sources):
        self.language = language
        self.executions = 0
        self.stopping = False
        self._listener = None
        self._listener_lock = threading.Lock()
        self._requests_lock = threading.Lock()
        self._environment = env
        # The end of what it wrote to stderr since the last execution: it may say why the kernel ended.
        self._last_words = ""
        program = program_of(language)

        requests_out, self._requests = os.pipe()
        self._events, events_in = os.pipe()
        self._wake, wake_in = os.pipe()
        argv, given = self._command(program, requests_out, events_in, sources)
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=env,
                pass_fds=given,
                # Its own group, so that an interrupt reaches the programs it runs, as a terminal would do it.
                start_new_session=True,
            )
        except OSError:
            for descriptor in (self._requests, self._events, self._wake, wake_in):
                os.close(descriptor)
            raise
        finally:
            for descriptor in given:
                os.close(descriptor)

        threading.Thread(target=self._wait_for_end, args=(wake_in,), daemon=True).start()
        threading.Thread(target=self._read_events, daemon=True).start()

    def _command(self, program, requests, events, sources):
        """The arguments of the kernel, and the descriptors it is to have."""
        if self.language == "bash":
            return (
                [program, "--norc", "--noprofile", "-c", sources["bash/main.bash"], "bash", str(requests), str(events)],
                (requests, events),
            )
        text = os.memfd_create("kernel")
        if self.language == "python":
            wanted = {path: source for path, source in sources.items() if path.startswith("sandbar_kernel/")}
            argv = [program, "-c", sources["start.py"], str(text), "sandbar_kernel.main", str(requests), str(events)]
        else:
            wanted = {path: source for path, source in sources.items() if path.startswith("node/")}
            typed = json.dumps(self.language == "typescript")
            start = NODE_START % {"sources": text, "requests": requests, "events": events, "typed": typed}
            argv = [program, "-e", start]
        with os.fdopen(os.dup(text), "wb") as file:
            file.write(json.dumps(wanted).encode())
        os.lseek(text, 0, os.SEEK_SET)
        return argv, (requests, events, text)

    @property
    def alive(self):
        if self.stopping or self.process.returncode is not None:
            return False
        # Not `poll`: while another thread waits for the process, that knows nothing, and says that it runs.
        try:
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def execute(self, code, env):
        """Starts an execution and returns the queue of its events, which ends with DONE or Died."""
        self.executions += 1
        self._last_words = ""
        listener = Listener(self.executions)
        with self._listener_lock:
            self._listener = listener
        try:
            self._send(self._request(self.executions, code, env))
        except OSError:
            self.process.wait()
            listener.put(Died(self.stopping, self._how_it_ended()))
        return listener

    def _request(self, number, code, env):
        if self.language != "bash":
            return json.dumps({"id": number, "code": code, "env": env}).encode() + b"\n"
        before = "\n".join("export " + shlex.quote(name + "=" + value) for name, value in env.items())
        after = "\n".join(
            "export " + shlex.quote(name + "=" + self._environment[name])
            if name in self._environment
            else "unset " + shlex.quote(name)
            for name in env
        )
        return b"".join(part.replace("\0", "").encode() + b"\0" for part in (str(number), before, code, after))

    def _send(self, data):
        with self._requests_lock:
            if self._requests is None:
                raise BrokenPipeError("the kernel is gone")
            while data:
                data = data[os.write(self._requests, data) :]

    def release(self, listener):
        """The execution is over, or nobody wants the rest of it."""
        listener.gone = True
        with self._listener_lock:
            if self._listener is listener:
                self._listener = None

    def interrupt(self, listener):
        """Ends the execution under way. Returns whether the kernel survived it."""
        listener.unread()
        self.signal(signal.SIGINT)
        deadline = time.monotonic() + INTERRUPT_GRACE
        while time.monotonic() < deadline:
            event = listener.get(deadline - time.monotonic())
            if event is DONE:
                return True
            if isinstance(event, Died):
                return False
        self.stop()
        return False

    def stop(self):
        """Kills the kernel and what it started, and waits until it is gone."""
        self.stopping = True
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def _wait_for_end(self, wake):
        # The pipes say nothing as long as a child of the kernel holds them, so its end is waited for as well.
        self.process.wait()
        os.close(wake)

    def _read_events(self):
        streams = {
            self._events: EventLines(self._hear),
            self.process.stdout.fileno(): Text(lambda text: self._hear({"type": "stdout", "text": text})),
            self.process.stderr.fileno(): Text(lambda text: self._hear({"type": "stderr", "text": text})),
        }
        plain = [descriptor for descriptor in streams if descriptor != self._events]
        selector = selectors.DefaultSelector()
        for descriptor in list(streams) + [self._wake]:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        try:
            ended = False
            while not ended:
                ready = [key.fd for key, _ in selector.select()]
                ended = self._wake in ready
                if self._events in ready or ended:
                    # What was printed before an event belongs before it, also when it came on another pipe. Reading
                    # that pipe first would not do: the kernel may print and send in between.
                    lines = drain(self._events, READ_SIZE)
                    for descriptor in plain:
                        streams[descriptor].feed(drain(descriptor))
                    streams[self._events].feed(lines)
                else:
                    for descriptor in ready:
                        data = drain(descriptor, READ_SIZE)
                        streams[descriptor].feed(data)
                        if not data:
                            # Whoever held the other end is gone; asking again would spin.
                            selector.unregister(descriptor)
            for descriptor in streams:
                streams[descriptor].feed(drain(descriptor))
                streams[descriptor].end()
        finally:
            selector.close()
            for descriptor in (self._events, self._wake):
                os.close(descriptor)
            with self._requests_lock:
                os.close(self._requests)
                # Its number may be another file's from now on.
                self._requests = None
            self.process.stdout.close()
            self.process.stderr.close()
            with self._listener_lock:
                listener, self._listener = self._listener, None
            if listener is not None:
                listener.put(Died(self.stopping, self._how_it_ended()))

    def _how_it_ended(self):
        return "\n".join(part for part in (how_it_ended(self.process.returncode), self._last_words.strip()) if part)

    def _hear(self, event):
        if event["type"] == "stderr":
            self._last_words = (self._last_words + event["text"])[-LAST_WORDS:]
        with self._listener_lock:
            listener = self._listener
        # Output between two executions has nobody to go to.
        if listener is None or event.get("id", listener.number) != listener.number:
            return
        listener.put(DONE if event["type"] == "done" else event)


class Listener(object):
    """Takes the events of one execution; a slow reader of them slows the kernel down."""

    def __init__(self, number):
        self.number = number
        self.gone = False
        self._unread = False
        self._queue = queue.Queue(WAITING_MESSAGES)

    def put(self, event):
        while not self.gone:
            if self._unread and event is not DONE and not isinstance(event, Died):
                return
            try:
                return self._queue.put(event, timeout=0.1)
            except queue.Full:
                pass

    def get(self, timeout):
        """The next event, or None when there is none in time."""
        try:
            return self._queue.get(timeout=max(timeout, 0))
        except queue.Empty:
            return None

    def unread(self):
        """Only the end counts from now on."""
        self._unread = True


class EventLines(object):
    """Puts lines of JSON together. Lines can be many megabytes long, so they are joined only once."""

    def __init__(self, hear):
        self._hear = hear
        self._parts = []

    def feed(self, data):
        lines = data.split(b"\n")
        for line in lines[:-1]:
            self._parts.append(line)
            self._hear(json.loads(b"".join(self._parts).decode("utf-8", "replace")))
            self._parts = []
        if lines[-1]:
            self._parts.append(lines[-1])

    def end(self):
        self._parts = []


class Text(object):
    """Decodes a stream of bytes; characters may come in two pieces."""

    def __init__(self, hear):
        self._hear = hear
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data):
        text = self._decoder.decode(data)
        if text:
            self._hear(text)

    def end(self):
        text = self._decoder.decode(b"", True)
        if text:
            self._hear(text)


def drain(descriptor, at_most=1024 * 1024):
    """What can be read at once, up to about a limit."""
    parts, size = [], 0
    while size < at_most:
        try:
            data = os.read(descriptor, READ_SIZE)
        except BlockingIOError:
            break
        if not data:
            break
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def how_it_ended(code):
    if code is not None and code < 0:
        try:
            return "it was killed by %s" % signal.Signals(-code).name
        except ValueError:
            return "it was killed by signal %d" % -code
    return "it exited with code %s" % code
