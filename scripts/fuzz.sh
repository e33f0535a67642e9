#!/usr/bin/env bash
# Runs parsers under libFuzzer and AddressSanitizer. Usage: scripts/fuzz.sh [TARGET...]
#
#   SANDBAR_FUZZ_SECONDS  time of each target, 30 unless set; 0 runs only the seeds, without
#                         instrumentation
#   SANDBAR_FUZZ_SEED     seed of the mutations, random unless set
#   SANDBAR_FUZZ_DIR      directory of corpora, logs and findings, /var/tmp/sandbar-fuzz unless set
set -euo pipefail
cd "$(dirname "$0")/.."
build="${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}/fuzz"
PATH="$PATH:$HOME/.cargo/bin"
seconds=${SANDBAR_FUZZ_SECONDS:-30}
seed=${SANDBAR_FUZZ_SEED:-$((RANDOM * 32768 + RANDOM + 1))}
work=${SANDBAR_FUZZ_DIR:-/var/tmp/sandbar-fuzz}

if [ "$seconds" -eq 0 ]; then
    # Without instrumentation: a quarter of the build time. These flags, too, replace those of
    # .cargo/config.toml.
    RUSTFLAGS="--cfg fuzzing" cargo build --manifest-path fuzz/Cargo.toml --locked --target-dir "$build"
    profile=debug
else
    # Sanitizers are unstable options of rustc. cargo-fuzz sets RUSTFLAGS, which replace those of
    # .cargo/config.toml: AddressSanitizer does not work with a static C library.
    RUSTC_BOOTSTRAP=1 cargo fuzz build --fuzz-dir fuzz --target-dir "$build" parsers
    profile=release
fi

# Root runs the targets as the overflow uid: a parser that escapes its directory must not be able to
# write anywhere. That user cannot read the build directory or the clone, hence the copies. It owns
# only directories whose parent it cannot change.
umask 022
owner=() unprivileged=()
if [ "$(id -u)" -eq 0 ]; then
    owner=(--owner=65534 --group=65534)
    unprivileged=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs)
fi
mkdir -p "$work"/{corpus,dictionaries,findings,logs,tmp}
[ -O "$work" ] || { echo "error: directory \`$work\` belongs to another user — set SANDBAR_FUZZ_DIR" >&2; exit 1; }
install -m 755 "$build/$(rustc --print host-tuple)/$profile/parsers" "$work/parsers"
rm -rf "$work/seeds" "$work/dictionaries"/*
cp -r fuzz/seeds "$work/seeds"
chmod -R a+rX "$work/seeds"
SANDBAR_FUZZ_DICTIONARIES="$work/dictionaries" "$work/parsers" >"$work/logs/dictionaries" 2>&1 || {
    cat "$work/logs/dictionaries" >&2
    exit 1
}
for directory in fuzz/seeds/*; do
    [ -e "$work/dictionaries/${directory##*/}.dict" ] || { echo "error: seeds \`$directory\` have no target" >&2; exit 1; }
done

# Prints a line about the target and, when it failed, the reason. The input that failed is in
# $work/findings.
run_target() {
    local name=$1 log=$work/logs/$1 status=0 arguments
    install -d "${owner[@]}" "$work"/{corpus,findings,tmp}/"$name"
    arguments=(-artifact_prefix="$work/findings/$name/" -timeout=10 -rss_limit_mb=2048)
    if [ "$seconds" -eq 0 ]; then
        arguments+=("$work/seeds/$name"/*)
    else
        arguments+=(-max_total_time="$seconds" -seed="$seed" -max_len=4096 -dict="$work/dictionaries/$name.dict"
            -print_final_stats=1 "$work/corpus/$name" "$work/seeds/$name")
    fi
    (
        cd "$work/tmp/$name"
        # The stack of the threads that serve requests.
        ulimit -s 2048
        export SANDBAR_FUZZ_TARGET=$name TMPDIR=$PWD ASAN_OPTIONS=detect_odr_violation=0
        exec "${unprivileged[@]}" "$work/parsers" "${arguments[@]}"
    ) >"$log" 2>&1 || status=$?
    rm -rf "${work:?}/tmp/$name"
    awk -v name="$name" -v seed="$seed" '
        /^Executed / { seeds++ }
        /^stat::number_of_executed_units/ { runs = $2 }
        /^stat::average_exec_per_sec/ { pace = $2 }
        match($0, / cov: [0-9]+/) { edges = substr($0, RSTART + 6, RLENGTH - 6) }
        END {
            if (runs) printf "%-28s %10d runs, %6d a second, %6d edges, seed %d\n", name, runs, pace, edges, seed
            else printf "%-28s %10d seeds\n", name, seeds
        }' "$log"
    [ "$status" -ne 0 ] || return 0
    echo "FOUND $name: exit status $status, log $log"
    grep -m 1 -A 8 -E 'panicked at|ERROR: ' "$log" | cut -c 1-400 | sed 's/^/  /' || true
    sed -n 's/^.*Test unit written to /  input: /p; s/^Running: /  input: /p' "$log" | tail -n 1
    return 1
}

failed=0
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(cd "$work/dictionaries" && printf '%s\n' *.dict | sed 's/\.dict$//')
for name in "${names[@]}"; do
    [ -e "$work/dictionaries/$name.dict" ] || { echo "error: unknown target \`$name\`" >&2; exit 1; }
    run_target "$name" || failed=1
done
exit "$failed"
