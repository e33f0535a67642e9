#!/usr/bin/env bash
# Runs the suite hostile-session at full length with the release build, one family at a time, and
# prints the latency of the probe session alone and under attack, and the peak memory of the host.
# Arguments go to nextest: scripts/hostile.sh -E 'test(native::trees)'.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}"
export SANDBAR_TEST_SCALE="${SANDBAR_TEST_SCALE:-100}"
PATH="$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin"
run=(cargo nextest run --cargo-profile release --package sandbar --test hostile --ignore-default-filter)

"${run[@]}" --no-run
results="$CARGO_TARGET_DIR/nextest"
rm -f "$results"/hostile-{session,attempts}.tsv
failed=0
scripts/in-test-run.sh "${run[@]}" --no-fail-fast --test-threads 1 "$@" || failed=1
for table in hostile-attempts hostile-session; do
    echo "$results/$table.tsv:"
    column -t -s $'\t' "$results/$table.tsv"
done
[ "$failed" -eq 0 ] || { echo "make hostile: FAILED"; exit 1; }
