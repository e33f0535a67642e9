#!/usr/bin/env python3
"""Writes the table of E2B SDK versions in COMPATIBILITY.md; with --check, compares it.

    scripts/sdk-table.py [--check] REPORT

`make test-full`, and `make test` followed by `make test-rest`, call it with the report of their run.
A line of the report is: language, version, mode, style, passed, failed, skipped; separated by tabs.
A later line for the same SDK, mode and style replaces an earlier one.
"""

import pathlib
import sys

FILE = pathlib.Path(__file__).resolve().parent.parent / "COMPATIBILITY.md"
BEGIN, END = "<!-- sdk-table: begin -->", "<!-- sdk-table: end -->"
COLUMNS = [("plain", "sync"), ("plain", "async"), ("domain", "sync"), ("domain", "async")]
PACKAGES = {"python": "PyPI", "javascript": "npm"}


def table(report):
    rows = {}
    for line in report.splitlines():
        language, version, mode, style, *counts = line.split("\t")
        rows.setdefault((language, version), {})[mode, style] = " / ".join(counts)
    yield "| `e2b` | plain, sync | plain, async | domain, sync | domain, async |"
    yield "|---|---|---|---|---|"
    order = lambda key: (list(PACKAGES).index(key[0]), [int(part) for part in key[1].split(".")])
    for language, version in sorted(rows, key=order):
        cells = [rows[language, version].get(column, "–") for column in COLUMNS]
        yield f"| {PACKAGES[language]} {version} | {' | '.join(cells)} |"


def main():
    *options, report = sys.argv[1:] or sys.exit("usage: scripts/sdk-table.py [--check] REPORT")
    text = FILE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    lines = "\n".join(table(pathlib.Path(report).read_text()))
    written = f"{before}{BEGIN}\n{lines}\n{END}{after}"
    if options == ["--check"] and text != written:
        sys.exit(f"{lines}\nerror: {FILE.name} has another table — run `make test-full`, which writes it")
    FILE.write_text(written)


if __name__ == "__main__":
    main()
