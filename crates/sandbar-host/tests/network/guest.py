"""What runs inside a session and tries to reach something.

It reads lines, each a way and its arguments as a list in JSON, or takes one from its own arguments. Of each it says in one line:
`reached: ` and what came back, or `refused: ` and why not. Whatever else goes wrong is a mistake in here: it ends with a
traceback, and the test fails.
"""

import json
import os
import socket
import ssl
import struct
import sys
import time

PATIENCE = 20
AUTHORITY = "authority.pem"


class Refused(Exception):
    pass


def text_of(argument):
    """Escapes such as \\r\\n and \\x00 mean what they mean in Python."""
    return argument.encode("latin-1").decode("unicode_escape").encode("latin-1")


def connected(address, port):
    connection = socket.create_connection((address, int(port)), PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def some(connection):
    words = connection.recv(65536)
    if not words:
        raise Refused("closed without a word")
    return words


def everything(connection):
    words = some(connection)
    while more := connection.recv(65536):
        words += more
    return words


def echo(address, port, words):
    """Says a line and wants to hear the same."""
    connection = connected(address, port)
    line = words.encode() + b"\n"
    connection.sendall(line)
    heard = b""
    while len(heard) < len(line):
        heard += some(connection)
    return heard


def speaks_first(address, port):
    return some(connected(address, port))


def say(address, port, words):
    """Says something and hears until the other side has said all."""
    connection = connected(address, port)
    connection.sendall(text_of(words))
    return everything(connection)


def late(address, port, early, words):
    """Sends a part, or nothing, and the rest only after the listener has decided."""
    connection = connected(address, port)
    connection.sendall(text_of(early))
    time.sleep(0.5)
    connection.sendall(text_of(words))
    return everything(connection)


def upgraded(address, port, host):
    """A connection that becomes something else, as for WebSockets."""
    connection = connected(address, port)
    connection.sendall(
        f"GET /socket HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    heard = some(connection)
    if b" 101 " not in heard.split(b"\r\n")[0]:
        raise Refused(heard.decode("latin-1"))
    connection.sendall(b"\x00no longer HTTP\xff")
    while not heard.endswith(b"\xff"):
        heard += some(connection)
    return heard[heard.index(b"\x00") :]


def held(address, port, count):
    """Connections that are kept until there is a file `go`; each is used before and after. Tells in `held` how many it has."""
    connections = []
    for _ in range(int(count)):
        connection = connected(address, port)
        connection.sendall(b"before\n")
        some(connection)
        connections.append(connection)
        with open("held", "w") as file:
            file.write(str(len(connections)))
    while not os.path.exists("go"):
        time.sleep(0.01)
    for connection in connections:
        connection.sendall(b"after\n")
        some(connection)
    return b"used to the end"


def many(address, port, count):
    """Tells how many of some connections in a row were good for something."""
    good = 0
    for _ in range(int(count)):
        try:
            connection = connected(address, port)
            connection.sendall(b"hello\n")
            some(connection)
            good += 1
        except (Refused, OSError):
            pass
    return b"%d good" % good


def bulk(address, port, size):
    """Sends the given number of bytes to an echo server and prints how long all took."""
    connection = connected(address, port)
    began = time.monotonic()
    left, heard = int(size), 0
    while left or heard < int(size):
        if left:
            left -= connection.send(bytes(min(left, 16384)))
        heard += len(some(connection))
    return b"%d ms" % ((time.monotonic() - began) * 1000)


def endless_greeting(address, port):
    """A greeting of TLS that never comes to its name."""
    connection = connected(address, port)
    connection.sendall(b"\x16\x03\x01\x40\x00\x01\xff\xff\xff\x03\x03" + bytes(16378))
    while True:
        connection.sendall(b"\x16\x03\x01\x40\x00" + bytes(16384))


def udp(address, port, words):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_DGRAM)
    connection.settimeout(PATIENCE)
    connection.connect((address, int(port)))
    connection.send(words.encode())
    return connection.recv(65536)


def unanswered_udp(address, port, words):
    """Where no answer is the best one can hope for."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.connect((address, int(port)))
    connection.send(words.encode())
    return answer_or_silence(connection)


def lookup(name):
    """As programs do it."""
    found = socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)
    return " ".join(sorted({entry[4][0] for entry in found})).encode()


# TLS, with full control over the first thing that is said.


def extensions_of(hello):
    """Splits a ClientHello (one record) into its head and its extensions."""
    body = hello[9:]
    at = 34
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    head, rest = body[:at], body[at + 2 :]
    extensions = []
    while rest:
        kind, length = struct.unpack("!HH", rest[:4])
        extensions.append((kind, rest[4 : 4 + length]))
        rest = rest[4 + length :]
    return head, extensions


def hello_of(head, extensions):
    rest = b"".join(struct.pack("!HH", kind, len(data)) + data for kind, data in extensions)
    body = head + struct.pack("!H", len(rest)) + rest
    handshake = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack("!H", len(handshake)) + handshake


def names(*entries):
    listed = b"".join(bytes([kind]) + struct.pack("!H", len(name)) + name for kind, name in entries)
    return 0, struct.pack("!H", len(listed)) + listed


def without_name(extensions):
    return [extension for extension in extensions if extension[0] != 0]


EDITS = {
    "grease": lambda all, name: all + [(0x0A0A, b"")],
    "ech": lambda all, name: all + [(0xFE0D, b"\x00\x00\x01\x00\x01\x00\x00\x20" + bytes(32) + b"\x00\x10" + bytes(16))],
    "two-names": lambda all, name: without_name(all) + [names((0, b"allowed.example"), (0, name))],
    "name-twice": lambda all, name: without_name(all) + [names((0, b"allowed.example")), names((0, name))],
    "name-in-nul": lambda all, name: without_name(all) + [names((0, b"allowed.example\x00." + name))],
    "name-of-address": lambda all, name: without_name(all) + [names((0, b"203.0.113.10"))],
    "empty-name": lambda all, name: without_name(all) + [names((0, b""))],
    "other-kind-of-name": lambda all, name: without_name(all) + [names((7, b"allowed.example"))],
    "dot-at-the-end": lambda all, name: without_name(all) + [names((0, name + b"."))],
    "upper-case": lambda all, name: without_name(all) + [names((0, name.upper()))],
    "long-name": lambda all, name: without_name(all) + [names((0, b"allowed.example." + b"a" * 300 + b"." + name))],
}


def in_pieces(hello, split):
    """The same greeting as several segments, or as several records of TLS."""
    if split == "segments":
        return [hello[at : at + 1] for at in range(0, 40)] + [hello[40:]]
    if split == "records":
        body = hello[5:]
        pieces = [body[at : at + 20] for at in range(0, len(body), 20)]
        return [b"\x16\x03\x01" + struct.pack("!H", len(piece)) + piece for piece in pieces]
    if split == "records-in-one":
        return [b"".join(in_pieces(hello, "records"))]
    return [hello]


class Tls:
    """TLS over a connection, with the greeting edited and cut."""

    def __init__(self, connection, name, options):
        context = ssl.create_default_context(cafile=options.get("authority", AUTHORITY))
        if options.get("alpn"):
            context.set_alpn_protocols([options["alpn"]])
        if options.get("version") == "1.2":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        if name == "":
            context.check_hostname = False
        self.connection = connection
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.inner = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name or None)
        self.first = True
        self.name, self.options = name, options
        self.until(self.inner.do_handshake)

    def flush(self):
        said = self.outgoing.read()
        if not said:
            return
        if not self.first:
            self.connection.sendall(said)
            return
        self.first = False
        if self.options.get("edit"):
            head, extensions = extensions_of(said)
            said = hello_of(head, EDITS[self.options["edit"]](extensions, self.name.encode()))
        for piece in in_pieces(said, self.options.get("split")):
            self.connection.sendall(piece)

    def until(self, step):
        while True:
            try:
                result = step()
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                heard = self.connection.recv(65536)
                if heard:
                    self.incoming.write(heard)
                else:
                    self.incoming.write_eof()

    def sendall(self, words):
        self.until(lambda: self.inner.write(words))

    def recv(self, most):
        try:
            return self.until(lambda: self.inner.read(most))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""


def tls_to(address, port, name, options):
    if "proxy" in options:
        connection = connected(options["proxy"], 3128)
        connection.sendall(f"CONNECT {address}:{port} HTTP/1.1\r\nHost: {address}:{port}\r\n\r\n".encode())
        answer = some(connection)
        if b" 200 " not in answer.split(b"\r\n")[0]:
            raise Refused(answer.decode("latin-1"))
    else:
        connection = connected(address, port)
    if "first" in options:
        connection.sendall(text_of(options["first"]))
    if options.get("late"):
        time.sleep(0.5)
    return Tls(connection, name, options)


def tls(address, port, name, options="{}"):
    """A request over TLS; options are a JSON object: `host`, `path`, `split`, `edit`, `proxy`, ..."""
    options = json.loads(options)
    secured = tls_to(address, port, name, options)
    if "words" in options:
        secured.sendall(text_of(options["words"]))
        return some(secured)
    host = options.get("host", name or address)
    secured.sendall(
        f"GET {options.get('path', '/')} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    )
    return everything(secured)


def http2(address, port, name, authority):
    """A request over HTTP/2, for whatever authority."""
    if name:
        connection = tls_to(address, port, name, {"alpn": "h2"})
        if connection.inner.selected_alpn_protocol() != "h2":
            raise Refused("no HTTP/2")
    else:
        connection = connected(address, port)

    def literal(name, value):
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    # GET, https or http, /, and the authority: the first three stand in the static table.
    head = b"\x82" + (b"\x87" if name else b"\x86") + b"\x84" + literal(b":authority", authority.encode())
    frame = lambda kind, flags, stream, data: len(data).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack("!I", stream) + data
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, head))
    heard = b""
    while more := connection.recv(65536):
        heard += more
        rest, bodies, status, ended = heard, b"", b"", False
        while len(rest) >= 9:
            length, kind, flags = int.from_bytes(rest[:3], "big"), rest[3], rest[4]
            if len(rest) < 9 + length:
                break
            data, rest = rest[9 : 9 + length], rest[9 + length :]
            if kind == 0:
                bodies += data
            if kind == 1:
                status += data
            if kind == 3 or kind == 7:
                raise Refused(f"frame of kind {kind}: {data!r}")
            ended = ended or (kind in (0, 1) and flags & 1)
        if ended:
            # `:status 200` is entry 8 of the static table.
            if status[:1] != b"\x88":
                raise Refused(f"status {status!r}, {bodies!r}")
            return bodies
        if not rest and not heard.startswith(b"\x00"):
            raise Refused(repr(heard))
    raise Refused("closed without an answer: " + repr(heard))


# DNS, by every way there is.


def question(name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return b"\xab\xcd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00" + struct.pack("!HH", kind, 1)


KINDS = {"A": 1, "NS": 2, "TXT": 16, "AAAA": 28, "HTTPS": 65, "ANY": 255}


def addresses_in(message):
    code = message[3] & 15
    if code:
        raise Refused(f"answer with code {code}")
    count = int.from_bytes(message[6:8], "big")
    at = 12
    while message[at]:
        at += 1 + message[at]
    at += 5
    found = []
    for _ in range(count):
        while message[at] and message[at] < 0xC0:
            at += 1 + message[at]
        at += 2 if message[at] else 1
        kind, _, _, length = struct.unpack("!HHIH", message[at : at + 10])
        data = message[at + 10 : at + 10 + length]
        at += 10 + length
        if kind in (1, 28):
            found.append(socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, data))
    return (" ".join(found) or "nothing").encode()


def dns(server, name, kind, way):
    query = question(name, KINDS[kind])
    if way == "udp":
        connection = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
        connection.settimeout(PATIENCE)
        connection.connect((server, 53))
        connection.send(query)
        return addresses_in(connection.recv(65536))
    if way == "tcp" or way == "tls":
        connection = connected(server, 53) if way == "tcp" else tls_to(server, 853, "dot.example", {})
        connection.sendall(struct.pack("!H", len(query)) + query)
        answer = some(connection)
        while len(answer) < 2 or len(answer) < 2 + int.from_bytes(answer[:2], "big"):
            answer += some(connection)
        return addresses_in(answer[2:])
    connection = tls_to(server, 443, "doh.example", {})
    connection.sendall(
        b"POST /dns-query HTTP/1.1\r\nHost: doh.example\r\nConnection: close\r\nContent-Type: application/dns-message\r\n"
        b"Content-Length: %d\r\n\r\n" % len(query) + query
    )
    return addresses_in(everything(connection).split(b"\r\n\r\n", 1)[1])


# What needs rights a session does not have, or should not have.


def answer_or_silence(connection):
    connection.settimeout(1)
    try:
        return connection.recv(65536)
    except TimeoutError:
        raise Refused("sent without an answer") from None


def icmp(address, kind):
    connection = socket.socket(socket.AF_INET, getattr(socket, kind), socket.IPPROTO_ICMP)
    connection.connect((address, 0))
    connection.send(b"\x08\x00\xf7\xff\x00\x00\x00\x00")
    return answer_or_silence(connection)


def raw_packet(address, port):
    """A UDP packet with a header of our own."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    words = b"exfiltrated"
    datagram = struct.pack("!HHHH", 4000, int(port), 8 + len(words), 0) + words
    header = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 20 + len(datagram), 1, 0, 64, 17, 0, socket.inet_aton("203.0.113.200"), socket.inet_aton(address)
    )
    connection.sendto(header + datagram, (address, 0))
    return answer_or_silence(connection)


def frame(interface):
    connection = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    connection.bind((interface, 0))
    connection.send(b"\xff" * 12 + b"\x08\x00" + b"\x45" + bytes(30))
    return answer_or_silence(connection)


def other_protocol(address, number):
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM if number == "132" else socket.SOCK_RAW, int(number))
    connection.settimeout(1)
    connection.connect((address, 9000))
    connection.send(b"exfiltrated")
    return answer_or_silence(connection)


def with_forged_source(source, address, port):
    """With a source address that is not the session's."""
    connection = socket.socket()
    connection.settimeout(PATIENCE)
    transparent = 19
    connection.setsockopt(socket.IPPROTO_IP, transparent, 1)
    connection.bind((source, 0))
    connection.connect((address, int(port)))
    connection.send(b"hello\n")
    return some(connection)


def with_mark(address, port):
    connection = socket.socket()
    connection.settimeout(PATIENCE)
    mark = 36
    connection.setsockopt(socket.SOL_SOCKET, mark, 1)
    connection.connect((address, int(port)))
    connection.send(b"hello\n")
    return some(connection)


def at_interface(interface, address, port):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
    connection.settimeout(2)
    try:
        connection.connect((address, int(port)))
    except TimeoutError:
        raise Refused("no answer") from None
    connection.settimeout(PATIENCE)
    connection.send(b"hello\n")
    return some(connection)


def fast_open(address, port, words):
    """With the first words already in the first packet."""
    connection = socket.socket()
    connection.sendto(text_of(words), socket.MSG_FASTOPEN, (address, int(port)))
    connection.settimeout(PATIENCE)
    return some(connection)


def broadcast(address, port):
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    connection.sendto(b"exfiltrated", (address, int(port)))
    return answer_or_silence(connection)


def hijack(address, port):
    """Listens where the gate listens, then asks a name."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, int(port)))
    listener.listen()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    datagrams.bind((address, int(port)))
    return b"listening"


def mapped(address, port, words):
    """By a socket of IPv6 to an address of IPv4 in it."""
    connection = socket.socket(socket.AF_INET6)
    connection.settimeout(PATIENCE)
    connection.connect((address, int(port)))
    connection.sendall(text_of(words))
    return some(connection)


def attempt(way, *arguments):
    try:
        print("reached:", repr(globals()[way](*arguments))[2:-1], flush=True)
    except (Refused, OSError) as error:
        print("refused:", type(error).__name__, str(error).replace("\n", " "), flush=True)


if len(sys.argv) > 1:
    attempt(*sys.argv[1:])
else:
    for line in sys.stdin:
        attempt(*json.loads(line))
