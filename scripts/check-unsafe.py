#!/usr/bin/env python3
"""Fails when the list of files with `unsafe` code in ARCHITECTURE.md is not up to date.

    scripts/check-unsafe.py [--write]

The compiler denies `unsafe` code (`unsafe_code` in Cargo.toml) except in files that expect it with a
reason, and warns about a file that expects it and has none. The list is generated from those
expectations; `--write` updates it. Test support, tests and benchmarks are not listed.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- unsafe files, written by scripts/check-unsafe.py --write -->\n"
END = "<!-- end of unsafe files -->\n"
EXPECT = re.compile(r'#!?\[expect\(\s*unsafe_code,\s*reason = "([^"]*)",?\s*\)\]')
UNLISTED = {"sandbar-intruder", "sandbar-testing"}


def rows():
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        name = path.relative_to(ROOT)
        found = EXPECT.search(path.read_text())
        if found and name.parts[1] not in UNLISTED:
            yield f"| `{name}` | {found[1]} |\n"


def main():
    text = PAGE.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"ARCHITECTURE.md: marker {BEGIN if not begin else END!r} is missing")
    table = "\n| file | reason for `unsafe` |\n|---|---|\n" + "".join(rows()) + "\n"
    current = head + BEGIN + table + END + tail
    if "--write" in sys.argv[1:]:
        PAGE.write_text(current)
    elif current != text:
        sys.exit("ARCHITECTURE.md: list of unsafe files is out of date; run `scripts/check-unsafe.py --write`")


main()
