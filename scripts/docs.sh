#!/usr/bin/env bash
# Builds the documentation as a book with search, in $SANDBAR_DOCS_DIR ($CARGO_TARGET_DIR/book).
#
# The book has the pages of docs/SUMMARY.md. They are copied with their place in the repository, so
# that links between docs/ and the documents at the top keep working; links to code become text.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:$HOME/.cargo/bin"
out="${SANDBAR_DOCS_DIR:-${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}/book}"

scripts/check-links.py
rm -rf "$out"
mkdir -p "$out/src"
cp docs/book.toml "$out"
scripts/collect-pages.py docs/SUMMARY.md "$out/src"
mdbook build "$out" --dest-dir "$(realpath "$out")/html"
printf 'docs: open %s\n' "$out/html/index.html" >&2
