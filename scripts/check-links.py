#!/usr/bin/env python3
"""Fails when a Markdown file of the repository has a broken relative link, anchor or path.

    scripts/check-links.py

Checked are links and images, anchors within and between files, and paths in backticks that start
with a top-level directory, such as `crates/sandbar-core/src/id.rs`, or are the end of the path of a
Rust file, such as `session/rollback.rs`. Addresses on the web are not fetched. `<name>` and `*` in a
path match anything. A changelog names paths of its time.
"""

import fnmatch
import functools
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^)\s]+)(?: \"[^\"]*\")?\)")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?:crates|docs|examples|fuzz|packaging|proto|scripts|tests)/[\w./*<>-]+")
RUST_FILE = re.compile(r"[\w./*<>-]+\.rs")
FENCE = re.compile(r"^\s*(```|~~~)")
HEADING = re.compile(r"^#{1,6} +(?P<title>.*?)\s*#*$")


def prose(path):
    """Yields the numbered lines outside of code blocks."""
    inside = False
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


@functools.cache
def anchors(path):
    """Returns the anchors of a file's headings, as forges and mdBook write them."""
    seen, found = {}, set()
    for _, line in prose(path):
        heading = HEADING.match(line)
        if not heading:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["title"])
        slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def broken_link(page, target):
    """Returns what is wrong with a link, if anything."""
    if re.match(r"[a-z][a-z+.-]*:", target):
        return None
    name, _, anchor = target.partition("#")
    path = pathlib.Path(os.path.normpath(page.parent / name)) if name else page
    if not path.exists():
        return f"{target} does not exist"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return f"{target}: there is no such heading"
    return None


@functools.cache
def rust_files():
    """Returns the paths of all Rust files, from the top of the repository."""
    found = (ROOT / top for top in ("crates", "examples", "fuzz"))
    return [str(file.relative_to(ROOT)) for top in found for file in top.rglob("*.rs")]


def broken_path(text):
    """Returns a path in backticks that does not exist, if it is one."""
    name = text.partition("::")[0]
    pattern = re.sub(r"<[^>]*>", "*", name).rstrip("/")
    if PATH.fullmatch(name):
        exists = any(ROOT.glob(pattern))
    elif RUST_FILE.fullmatch(name):
        exists = any(fnmatch.fnmatch(file, f"*/{pattern}") for file in rust_files())
    else:
        return None
    return None if exists else f"{name} does not exist"


def problems(page):
    for number, line in prose(page):
        outside_code = CODE.sub("", line)
        for link in LINK.finditer(outside_code if "](" in outside_code else line):
            problem = broken_link(page, link["target"])
            if problem:
                yield number, problem
        if page.name == "CHANGELOG.md":
            continue
        for quoted in CODE.findall(line):
            problem = broken_path(quoted)
            if problem:
                yield number, problem


def main():
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    pages = [ROOT / name for name in names.splitlines() if (ROOT / name).exists()]
    found = [(page, *problem) for page in pages for problem in problems(page)]
    for page, number, problem in found:
        print(f"{page.relative_to(ROOT)}:{number}: {problem}", file=sys.stderr)
    print(f"{len(pages)} Markdown files, {len(found)} broken links")
    sys.exit(1 if found else 0)


main()
