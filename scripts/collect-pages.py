#!/usr/bin/env python3
"""Copies the pages a SUMMARY.md names, and their images, into the source directory of a book.

    scripts/collect-pages.py docs/SUMMARY.md DIRECTORY

Pages keep their place relative to the repository. A link to a file that is not a page of the book
becomes plain text.
"""

import os
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def resolve(page, target):
    """Returns the path a relative link leads to, from the top of the repository."""
    return pathlib.Path(os.path.normpath(page.parent / target.partition("#")[0]))


def main(summary, out):
    text = (ROOT / summary).read_text()
    pages = {resolve(summary, link["target"]) for link in LINK.finditer(text)}
    images = set()

    def rewrite(page, link):
        target = link["target"]
        if target.startswith("#") or re.match(r"[a-z]+:", target):
            return link[0]
        path = resolve(page, target)
        if link["image"]:
            images.add(path)
            return link[0]
        if path not in pages:
            return link["text"]
        # mdBook names the page of a README.md `index.html`, and leaves links to it as they are.
        return link[0].replace("README.md", "index.md")

    for page in sorted(pages):
        copy = out / page
        copy.parent.mkdir(parents=True, exist_ok=True)
        content = (ROOT / page).read_text()
        copy.write_text(LINK.sub(lambda link: rewrite(page, link), content))
    for image in images:
        (out / image).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / image, out / image)
    # The summary of a book is at the top of its source directory.
    (out / "SUMMARY.md").write_text(
        LINK.sub(lambda link: f"[{link['text']}]({resolve(summary, link['target'])})", text)
    )


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
