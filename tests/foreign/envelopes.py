"""Frames of Connect streams, for clients that do not support them, such as `curl`.

`envelopes.py pack` makes frames of the JSON messages on stdin, one a line. `envelopes.py unpack`
prints the messages of a stream on stdin, one a line, and exits with 1 when the stream ended with an
error or was truncated.
"""

import json
import struct
import sys


def pack(lines):
    for line in lines:
        data = line.strip().encode()
        sys.stdout.buffer.write(struct.pack(">BI", 0, len(data)) + data)


def unpack(data):
    ended = False
    while data:
        assert not ended, "something came after the end"
        flags, length = struct.unpack(">BI", data[:5])
        message, data = data[5 : 5 + length], data[5 + length :]
        assert len(message) == length, "the stream was torn"
        ended = bool(flags & 2)
        if not ended:
            print(message.decode())
        elif "error" in json.loads(message):
            sys.exit(message.decode())
    assert ended, "the stream has no end"


if sys.argv[1] == "pack":
    pack(sys.stdin)
else:
    unpack(sys.stdin.buffer.read())
