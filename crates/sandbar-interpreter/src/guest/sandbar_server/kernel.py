"""One kernel: the process of a context, the pipes to it, and its events.

A kernel reads requests from one pipe and writes events to another, as lines of JSON (requests to
bash, R and Java are described in their kernels). Its stdout and stderr are pipes as well, so the
output of programs it starts is captured. One thread reads all of them as long as the kernel lives,
so that a kernel is never blocked by unread output.
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

# Limit of output buffered for a slow reader, in messages of at most READ_SIZE bytes.
WAITING_MESSAGES = 256
READ_SIZE = 64 * 1024
# Time a kernel has to end its cell after SIGINT before it is killed.
INTERRUPT_GRACE = 3.0
# Java is stopped through its debugger, which takes longer on a busy machine.
JAVA_INTERRUPT_GRACE = 10.0
# Limit of the stderr that is reported when a kernel exits by itself.
LAST_WORDS = 2048
# Time an unfinished line of plain output waits for its end: R writes a line in several parts, with
# pauses between them on a busy machine.
UNFINISHED_LINE = 0.25

# Runs the source of the kernel of JavaScript and TypeScript. In braces, so that its names do not
# occupy the global scope; `import()` works only in a script given with `-e`, so it is passed on.
NODE_START = """{
const sources = JSON.parse(require('fs').readFileSync(%(sources)d));
const run = (path, given) => new Function(...Object.keys(given), sources[path])(...Object.values(given));
const load = (name) => {
  const module = {exports: {}};
  return run('node/' + name + '.js', {require, load, module, exports: module.exports}) || module.exports;
};
const importModule = (name) => import(name);
run('node/main.js', {require, load, importModule, requests: %(requests)d, events: %(events)d, isTyped: %(typed)s});
}"""

# Ends the events of one execution; Died says why the kernel exited during one.
DONE = object()


class Died(object):
    """The kernel exited during the execution."""

    def __init__(self, asked, how):
        self.asked = asked
        self.how = how


class LanguageMissing(Exception):
    """The sandbox has no program for a language, or the language is not offered."""


# Program names of each language, and the package to install if none is found.
PROGRAMS = {
    "javascript": (("node", "nodejs"), "Node.js"),
    "typescript": (("node", "nodejs"), "Node.js"),
    "bash": (("bash",), "bash"),
    "r": (("R",), "R (the package r-base-core of Debian)"),
    "java": (("java",), "a JDK (the package default-jdk-headless of Debian)"),
}


def program_of(language):
    """Returns the program of a language, or raises LanguageMissing."""
    if language == "python":
        return sys.executable or "python3"
    if language not in PROGRAMS:
        raise LanguageMissing("Language %r is not offered here: use python, %s" % (language, ", ".join(sorted(PROGRAMS))))
    names, package = PROGRAMS[language]
    # The compiler tells a JDK from a Java that only runs programs.
    if language == "java" and not shutil.which("javac"):
        names = ()
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    raise LanguageMissing("Language %r needs %s, which this sandbox does not have" % (language, package))


class Kernel(object):
    """A running kernel. Its context ensures that at most one execution runs at a time."""

    def __init__(self, language, cwd, env, sources):
        self.language = language
        self.executions = 0
        self.stopping = False
        self._listener = None
        self._listener_lock = threading.Lock()
        self._requests_lock = threading.Lock()
        self._environment = env
        # Last part of stderr since the last execution: it may say why the kernel exited.
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
                env=self._variables(env),
                pass_fds=given,
                # Its own process group, so that an interrupt also reaches the programs it runs, as
                # in a terminal.
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

    def _variables(self, env):
        is_said = any(env.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
        # Otherwise R prints non-ASCII letters as code points.
        return dict(env, LC_CTYPE="C.UTF-8") if self.language == "r" and not is_said else env

    def _command(self, program, requests, events, sources):
        """Returns the arguments of the kernel, and the descriptors it inherits."""
        if self.language == "bash":
            return (
                [program, "--norc", "--noprofile", "-c", sources["bash/main.bash"], "bash", str(requests), str(events)],
                (requests, events),
            )
        text = os.memfd_create("kernel")
        if self.language in ("r", "java"):
            path = "/proc/self/fd/%d" % text
            if self.language == "r":
                source = sources["r/main.R"]
                argv = [program, "--no-echo", "--no-save", "--no-restore", "--file=" + path, "--args", str(requests), str(events)]
            else:
                source = sources["java/Main.java"]
                # A source file without the extension `.java` needs `--source`. The other options
                # make the start fast: cells run in another process.
                options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--source", "11"]
                argv = [program] + options + [path, str(requests), str(events)]
            write_text(text, source)
            return argv, (requests, events, text)
        if self.language == "python":
            wanted = {path: source for path, source in sources.items() if path.startswith("sandbar_kernel/")}
            argv = [program, "-c", sources["start.py"], str(text), "sandbar_kernel.main", str(requests), str(events)]
        else:
            wanted = {path: source for path, source in sources.items() if path.startswith("node/")}
            typed = json.dumps(self.language == "typescript")
            start = NODE_START % {"sources": text, "requests": requests, "events": events, "typed": typed}
            argv = [program, "-e", start]
        write_text(text, json.dumps(wanted))
        return argv, (requests, events, text)

    @property
    def alive(self):
        if self.stopping or self.process.returncode is not None:
            return False
        # Not `poll`: while another thread waits for the process, `poll` always reports it as
        # running.
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
        if self.language in ("r", "java"):
            return request_of_texts(number, [code] + [text for pair in env.items() for text in pair])
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
        """Ends the collection of events: the execution is over, or its client has disconnected."""
        listener.gone = True
        with self._listener_lock:
            if self._listener is listener:
                self._listener = None

    def interrupt(self, listener):
        """Interrupts the running execution. Returns whether the kernel survived."""
        listener.unread()
        self._interrupt(listener.number)
        deadline = time.monotonic() + (JAVA_INTERRUPT_GRACE if self.language == "java" else INTERRUPT_GRACE)
        while time.monotonic() < deadline:
            event = listener.get(deadline - time.monotonic())
            if event is DONE:
                return True
            if isinstance(event, Died):
                return False
        self.stop()
        return False

    def _interrupt(self, number):
        if self.language != "java":
            return self.signal(signal.SIGINT)
        # Java ends by that signal.
        try:
            self._send(request_of_texts(number, []))
        except OSError:
            pass

    def stop(self):
        """Kills the kernel and its children, and waits until it has exited."""
        self.stopping = True
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def _wait_for_end(self, wake):
        # The pipes stay open as long as a child of the kernel holds them, so the exit of the
        # process is waited for as well.
        self.process.wait()
        os.close(wake)

    def _read_events(self):
        streams = {
            self._events: EventLines(self._dispatch),
            self.process.stdout.fileno(): Text(lambda text: self._dispatch({"type": "stdout", "text": text})),
            self.process.stderr.fileno(): Text(lambda text: self._dispatch({"type": "stderr", "text": text})),
        }
        plain = [descriptor for descriptor in streams if descriptor != self._events]
        selector = selectors.DefaultSelector()
        for descriptor in list(streams) + [self._wake]:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        try:
            ended = False
            while not ended:
                unfinished = [streams[descriptor] for descriptor in plain if streams[descriptor].held]
                wait = max(min(stream.due for stream in unfinished) - time.monotonic(), 0) if unfinished else None
                ready = [key.fd for key, _ in selector.select(wait)]
                ended = self._wake in ready
                for stream in unfinished:
                    if stream.due <= time.monotonic():
                        stream.flush()
                if self._events in ready or ended:
                    # Output that was printed before an event has to be sent before it, even from
                    # another pipe. Reading that pipe first would not suffice: the kernel may print
                    # and send in between.
                    lines = drain(self._events, READ_SIZE)
                    for descriptor in plain:
                        streams[descriptor].feed(drain(descriptor))
                        streams[descriptor].flush()
                    streams[self._events].feed(lines)
                else:
                    for descriptor in ready:
                        data = drain(descriptor, READ_SIZE)
                        # Buffered output of the other stream was printed before.
                        for other in plain:
                            if other != descriptor:
                                streams[other].flush()
                        streams[descriptor].feed(data)
                        if not data:
                            # All writers have closed the pipe; selecting it again would spin.
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
                # The descriptor number may be reused from now on.
                self._requests = None
            self.process.stdout.close()
            self.process.stderr.close()
            with self._listener_lock:
                listener, self._listener = self._listener, None
            if listener is not None:
                listener.put(Died(self.stopping, self._how_it_ended()))

    def _how_it_ended(self):
        return "\n".join(part for part in (how_it_ended(self.process.returncode), self._last_words.strip()) if part)

    def _dispatch(self, event):
        if event["type"] == "stderr":
            self._last_words = (self._last_words + event["text"])[-LAST_WORDS:]
        with self._listener_lock:
            listener = self._listener
        # Output between two executions belongs to no request.
        if listener is None or event.get("id", listener.number) != listener.number:
            return
        listener.put(DONE if event["type"] == "done" else event)


class Listener(object):
    """Queue of the events of one execution, with back-pressure on the kernel."""

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
        """Returns the next event, or None after the timeout."""
        try:
            return self._queue.get(timeout=max(timeout, 0))
        except queue.Empty:
            return None

    def unread(self):
        """Discards events until the end of the execution."""
        self._unread = True


class EventLines(object):
    """Assembles lines of JSON. A line can have many megabytes, so its parts are joined only once."""

    def __init__(self, dispatch):
        self._dispatch = dispatch
        self._parts = []

    def feed(self, data):
        lines = data.split(b"\n")
        for line in lines[:-1]:
            self._parts.append(line)
            self._dispatch(json.loads(b"".join(self._parts).decode("utf-8", "replace")))
            self._parts = []
        if lines[-1]:
            self._parts.append(lines[-1])

    def end(self):
        self._parts = []


class Text(object):
    """Decodes a stream of bytes in which characters and lines may be split."""

    def __init__(self, dispatch):
        self._dispatch = dispatch
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.held = ""
        # Deadline of the buffered text.
        self.due = 0.0

    def feed(self, data):
        if not self.held:
            self.due = time.monotonic() + UNFINISHED_LINE
        self.held += self._decoder.decode(data)
        if self.held.endswith("\n") or len(self.held) >= READ_SIZE:
            self.flush()

    def flush(self):
        text, self.held = self.held, ""
        if text:
            self._dispatch(text)

    def end(self):
        self.held += self._decoder.decode(b"", True)
        self.flush()


def request_of_texts(number, texts):
    """Encodes a request for kernels without JSON: the number of texts, and each with its length."""
    texts = [text.encode("utf-8", "replace") for text in texts]
    return b"%d %d\n" % (number, len(texts)) + b"".join(b"%d\n%s" % (len(text), text) for text in texts)


def write_text(descriptor, text):
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)


def drain(descriptor, at_most=1024 * 1024):
    """Reads what is available, up to about a limit."""
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
