#!/usr/bin/env bash
# The long runs: host and model over many random sequences, from seeds that are new every time.
# Arguments go to nextest (`scripts/soak.sh -E 'test(zfs_native)'`). A seed of your own, or other
# numbers, by SANDBAR_MODEL_SEED, _SEQUENCES, _STEPS.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}"
PATH="$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin"

export SANDBAR_MODEL_SEED="${SANDBAR_MODEL_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"
export SANDBAR_MODEL_STEPS="${SANDBAR_MODEL_STEPS:-50}"
# Boxes are started from a binary of this package.
cargo build --package sandbar-runtime
cargo nextest run --profile soak --package sandbar-host --test model --no-run

failed=0
# soak SEQUENCES ARGUMENT...
soak() {
    local sequences=${SANDBAR_MODEL_SEQUENCES:-$1}
    shift
    echo "soak: $sequences sequences of $SANDBAR_MODEL_STEPS steps from seed $SANDBAR_MODEL_SEED: $*"
    SANDBAR_MODEL_SEQUENCES=$sequences \
        scripts/in-test-run.sh cargo nextest run --profile soak --package sandbar-host --test model "$@" || failed=1
}

if [ "$#" -gt 0 ]; then
    soak 200 "$@"
else
    soak 2000 -E 'test(/^btrfs_native::/)'
    soak 200 -E 'not test(/^btrfs_native::/)'
fi
[ "$failed" -eq 0 ] || { echo "make soak: FAILED"; exit 1; }
echo "make soak: passed"
