#!/usr/bin/env bash
# Builds the release binary and leaves it as ./bin/sandbar.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}"
PATH="$PATH:$HOME/.cargo/bin"

cargo build --release --package sandbar
target=$(rustc --print host-tuple)
mkdir -p bin
# A copy, not a link: a later build in another clone must not change the binary a running host came
# from.
install -m 755 "$CARGO_TARGET_DIR/$target/release/sandbar" bin/sandbar.new
mv -f bin/sandbar.new bin/sandbar
echo "built ./bin/sandbar" >&2
