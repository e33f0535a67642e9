"""Serves the code interpreter of a sandbox: `python3 -I -c START 0 sandbar_server.main PORT`."""

import os
import sys

from sandbar_server.context import Contexts
from sandbar_server.http import Server


def main(sources):
    port = int(sys.argv[3])
    # `!pip install` works at E2B; distributions refuse it to protect a system that is nobody's here.
    environment = dict({"PIP_BREAK_SYSTEM_PACKAGES": "1"}, **os.environ)
    server = Server(("127.0.0.1", port), Contexts(sources, environment))
    # Whoever started this on a free port learns here which one it is.
    print("listening on %d" % server.server_port, flush=True)
    server.serve_forever()
