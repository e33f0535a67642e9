"""The kernel's channel to the server, and the `sys.stdout` and `sys.stderr` that use it.

Text is buffered for a moment, so that one `print` is one message and a million short lines are not
a million messages. It is sent at once when the buffer is full, on `flush`, when the other stream is
written to, and before any other event.
"""

import io
import json
import os
import threading
import time

# Limits of buffered text, in seconds and characters. An unfinished line waits longer for its end:
# `print` writes the line break separately, and the machine may be busy in between.
MOMENT = 0.03
LONGER = 0.2
MUCH = 32 * 1024


class Line(object):
    """Events to the server, in order, from any thread."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._more = threading.Event()
        self._held = ("", [], 0)
        self._held_since = 0.0
        self.current = None
        # The thread that writes now, and whether it is to be interrupted when it has written.
        self._writer = None
        self._interrupt = False
        os.register_at_fork(before=self.flush, after_in_child=self._forked)
        threading.Thread(target=self._send_held_text, daemon=True).start()

    def _forked(self):
        # The parent's threads are not here, and one of them may have held the lock.
        self._lock = threading.RLock()
        self._held = ("", [], 0)

    @property
    def is_child(self):
        return os.getpid() != self._pid

    def tell(self, event):
        with self._lock:
            self.flush()
            if not self.is_child:
                self._write(event)

    def write(self, stream, text):
        with self._lock:
            if self._held[0] != stream:
                self.flush()
            parts = self._held[1]
            if not parts:
                self._held_since = time.monotonic()
            parts.append(text)
            self._held = (stream, parts, self._held[2] + len(text))
            # A child has no thread that would send the rest.
            if self._held[2] >= MUCH or (self.is_child and "\n" in text):
                self.flush()
            else:
                self._more.set()

    def flush(self):
        with self._lock:
            stream, parts, _ = self._held
            self._held = ("", [], 0)
            text = "".join(parts)
            for start in range(0, len(text), MUCH):
                part = text[start : start + MUCH]
                if self.is_child:
                    # Through the plain pipe: two writers of events would mix their lines.
                    os.write(1 if stream == "stdout" else 2, part.encode("utf-8", "replace"))
                else:
                    self._write({"type": stream, "text": part})

    def _write(self, event):
        event.setdefault("id", self.current)
        self._writer = threading.get_ident()
        data = json.dumps(event).encode("utf-8", "replace") + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]
        self._writer = None
        if self._interrupt and threading.current_thread() is threading.main_thread():
            self._interrupt = False
            raise KeyboardInterrupt()

    def interrupt(self):
        """Raises KeyboardInterrupt in the main thread, but never in the middle of a line."""
        if self._writer == threading.get_ident():
            self._interrupt = True
        else:
            raise KeyboardInterrupt()

    def _send_held_text(self):
        while True:
            self._more.wait()
            self._more.clear()
            # Waits without being woken by every further write, and for the text held now: the text
            # held when the wait began may be sent already, and flushing its successor early would
            # split one `print` into two messages.
            left = MOMENT
            while left > 0:
                threading.Event().wait(min(left, MOMENT))
                with self._lock:
                    left = self._time_left()
            self.flush()

    def _time_left(self):
        """Returns how long the buffered text may still wait."""
        parts = self._held[1]
        if not parts:
            return 0
        return self._held_since + (MOMENT if parts[-1].endswith("\n") else LONGER) - time.monotonic()


class Output(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of the cells."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, line, name, descriptor):
        self._line = line
        self._descriptor = descriptor
        self.name = "<%s>" % name
        self._stream = name
        self.buffer = Bytes(self)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        if text:
            self._line.write(self._stream, text)
        return len(text)

    def flush(self):
        self._line.flush()

    def writable(self):
        return True

    def isatty(self):
        return False

    def fileno(self):
        return self._descriptor

    def close(self):
        """Cells may not close what later cells print to."""

    def reconfigure(self, **_):
        pass


class Bytes(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, output):
        self._output = output

    def write(self, data):
        self._output.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def flush(self):
        self._output.flush()

    def writable(self):
        return True

    def close(self):
        pass
