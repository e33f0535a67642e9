"""The HTTP server of the code interpreter."""

import http.server
import json
import select
import socket
import socketserver

from sandbar_server.context import ClientGone
from sandbar_server.kernel import LanguageMissing

# Limit of a request body.
LARGEST_BODY = 64 * 1024 * 1024

ALIASES = {"js": "javascript", "node": "javascript", "py": "python", "python3": "python", "sh": "bash", "ts": "typescript"}


class Refused(Exception):
    """Error response."""

    def __init__(self, status, message):
        Exception.__init__(self, message)
        self.status = status
        self.message = message


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, address, contexts):
        self.contexts = contexts
        http.server.HTTPServer.__init__(self, address, Handler)

    def server_bind(self):
        # HTTPServer would resolve our own host name, which can take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "sandbar-code-interpreter"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.answer({"/health": self.health, "/contexts": self.list_contexts})

    def do_POST(self):
        self.answer({"/execute": self.execute, "/contexts": self.create_context, "/contexts/*/restart": self.restart_context})

    def do_DELETE(self):
        self.answer({"/contexts/*": self.remove_context})

    def answer(self, routes):
        try:
            # First of all, so that the next request on the connection starts at the right byte.
            self.body = self.read_body()
            parts = self.path.split("?", 1)[0].strip("/").split("/")
            for route, action in routes.items():
                wanted = route.strip("/").split("/")
                if len(wanted) == len(parts) and all(want in ("*", part) for want, part in zip(wanted, parts)):
                    return action(*[part for want, part in zip(wanted, parts) if want == "*"])
            raise Refused(404, "Not Found")
        except Refused as refused:
            self.send(refused.status, "text/plain; charset=utf-8", refused.message)
        except LanguageMissing as missing:
            self.send(501, "text/plain; charset=utf-8", str(missing))
        except (ClientGone, OSError):
            self.close_connection = True

    def health(self):
        self.send_json("OK")

    def list_contexts(self):
        self.send_json([context.describe() for context in self.server.contexts.all()])

    def create_context(self):
        wanted = self.fields()
        cwd = text_or_none(wanted, "cwd")
        language = language_of(text_or_none(wanted, "language"))
        try:
            context = self.server.contexts.create(language, cwd)
        except OSError as error:
            raise Refused(500, "Failed to set working directory: %s" % error)
        self.send_json(context.describe())

    def restart_context(self, id):
        try:
            self.context(id).restart()
        except (OSError, KeyError) as error:
            raise Refused(500, "Failed to restart context %s: %s" % (id, error))
        self.send_json(None)

    def remove_context(self, id):
        self.server.contexts.remove(self.context(id))
        self.send_json(None)

    def context(self, id):
        context = self.server.contexts.find(id)
        if context is None:
            raise Refused(404, "Context %s not found" % id)
        return context

    def execute(self):
        wanted = self.fields()
        code = wanted.get("code")
        if not isinstance(code, str):
            raise Refused(422, "code: a text is required")
        id, language = text_or_none(wanted, "context_id"), text_or_none(wanted, "language")
        if id and language:
            raise Refused(400, "Only one of context_id or language can be provided")
        env = variables(wanted)
        context = self.context(id) if id else self.server.contexts.default(language_of(language))

        with context.stand_in_line(self.client_is_there) as turn:
            # Only after the place in the queue was taken: a client that has read the response
            # headers may rely on it that later requests run later.
            self.send_response(200)
            self.send_header("Content-Type", "application/x-ndjson")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            lines = context.execute(code, env, turn)
            try:
                for line in lines:
                    self.send_chunk(json.dumps(line).encode() + b"\n")
            finally:
                # Interrupts the code if the client has disconnected.
                lines.close()
        self.send_chunk(b'{"type": "end_of_execution"}\n')
        self.send_chunk(b"")

    def send_chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def client_is_there(self):
        readable, _, _ = select.select([self.connection], [], [], 0)
        if not readable:
            return True
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def fields(self):
        try:
            value = json.loads(self.body.decode() or "{}")
        except ValueError as error:
            raise Refused(422, "the body is no JSON: %s" % error)
        if not isinstance(value, dict):
            raise Refused(422, "the body is no JSON object")
        return value

    def read_body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self.read_chunks()
        try:
            length = int(self.headers.get("Content-Length", "0"))
        except ValueError:
            self.close_connection = True
            raise Refused(400, "Content-Length is no number")
        self.check_size(length)
        return self.rfile.read(length)

    def read_chunks(self):
        parts, total = [], 0
        while True:
            try:
                length = int(self.rfile.readline(1024).split(b";")[0], 16)
            except ValueError:
                self.close_connection = True
                raise Refused(400, "a chunk has no length")
            total += length
            self.check_size(total)
            if length == 0:
                break
            parts.append(self.rfile.read(length))
            self.rfile.readline(1024)
        while self.rfile.readline(1024) not in (b"\r\n", b"\n", b""):
            pass
        return b"".join(parts)

    def check_size(self, length):
        if not 0 <= length <= LARGEST_BODY:
            self.close_connection = True
            raise Refused(413, "the body is larger than 64 MiB")

    def send_json(self, value):
        self.send(200, "application/json", json.dumps(value))

    def send(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def language_of(name):
    name = (name or "python").strip().lower()
    return ALIASES.get(name, name)


def text_or_none(fields, name):
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise Refused(422, "%s: a text is required" % name)
    return value or None


def variables(fields):
    value = fields.get("env_vars") or {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise Refused(422, "env_vars: an object of texts is required")
    for name, text in value.items():
        if not name or "=" in name or "\0" in name + text:
            raise Refused(422, "env_vars: %r cannot be a variable" % name)
    return value
