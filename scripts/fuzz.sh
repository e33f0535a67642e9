#!/usr/bin/env bash
# Every parser under a coverage-guided fuzzer: `scripts/fuzz.sh [TARGET...]`. SANDBAR_FUZZ_SECONDS is the time of each target,
# SANDBAR_FUZZ_SEED its beginning, SANDBAR_FUZZ_DIR where what is found is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}"
PATH="$PATH:$HOME/.cargo/bin"

export RUSTC_WORKSPACE_WRAPPER="$PWD/scripts/fuzz-rustc.sh"
exec cargo run --quiet --package sandbar-fuzz -- run "${SANDBAR_FUZZ_SECONDS:-30}" "$@"
