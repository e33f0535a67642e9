#!/usr/bin/env python3
"""Fails when docs/contract.md names a path or a test that does not exist, and counts its states.

    scripts/check-contract.py
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contract.md"
# `crates/x/src/y.rs`, `README.md`, `crates/x/tests/y.rs::a_test`; `/readyz` and `a.b` are no paths.
PATH = re.compile(r"(?P<path>[\w.-]+(?:/[\w.-]+)+/?|[\w.-]+\.(?:md|proto|py|rs|sh|toml))(?:::(?P<test>\w+))?")
STATE = re.compile(r"\| (yes|partly|no)(?:: [^|]+)? \|$")


def problems(page):
    for number, line in enumerate(page.splitlines(), start=1):
        for quoted in re.findall(r"`([^`]+)`", line):
            named = PATH.fullmatch(quoted)
            if not named:
                continue
            file = ROOT / named["path"]
            if not file.exists():
                yield f"{number}: {named['path']} does not exist"
            elif named["test"] and not re.search(rf"\b{named['test']}\b", file.read_text()):
                yield f"{number}: {named['path']} has no {named['test']}"


text = PAGE.read_text()
found = list(problems(text))
for problem in found:
    print(f"docs/contract.md:{problem}", file=sys.stderr)
states = collections.Counter(match[1] for match in map(STATE.search, text.splitlines()) if match)
print(", ".join(f"{states[state]} {state}" for state in ("yes", "partly", "no")))
sys.exit(1 if found else 0)
