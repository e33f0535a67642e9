"""Serves the code interpreter of a sandbox: `python3 -I -c START 0 sandbar_server.main PORT`."""

import os
import sys

from sandbar_server.context import Contexts
from sandbar_server.http import Server


def main(sources):
    port = int(sys.argv[3])
    # `!pip install` works in E2B. Distributions refuse it to protect the system Python, which a
    # sandbox does not need.
    environment = dict({"PIP_BREAK_SYSTEM_PACKAGES": "1"}, **os.environ)
    server = Server(("127.0.0.1", port), Contexts(sources, environment))
    # Reports the port, for a caller that asked for any free one.
    print("listening on %d" % server.server_port, flush=True)
    server.serve_forever()
