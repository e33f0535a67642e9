#!/usr/bin/env bash
# Every test, then a look at what they left behind. Arguments go to nextest (`scripts/test.sh -E 'test(rollback)'`).
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}"
PATH="$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A test that cannot run on this machine appends one line here: its name and the reason.
export SANDBAR_SKIP_REPORT="$work/skipped"
: >"$SANDBAR_SKIP_REPORT"
# Most tests wait for the kernel, a file system or a container a third of their time.
export NEXTEST_TEST_THREADS="${NEXTEST_TEST_THREADS:-$((($(nproc) * 3 + 1) / 2))}"

failed=0
cargo nextest run --workspace --profile ci --no-run
# Built out here: inside of a test run there is no network but its own.
scripts/in-test-run.sh cargo nextest run --workspace --profile ci "$@" || failed=1
if cargo test --workspace --doc --quiet >"$work/doc" 2>&1; then
    echo "doc tests: $(awk '/^test result/ { passed += $4 } END { print passed + 0 }' "$work/doc") passed"
else
    cat "$work/doc"
    failed=1
fi

if [ -s "$SANDBAR_SKIP_REPORT" ]; then
    printf '\nSKIPPED: %s test(s) could not run on this machine\n' "$(sort -u "$SANDBAR_SKIP_REPORT" | wc -l)"
    sort -u "$SANDBAR_SKIP_REPORT" | sed 's/^/  /'
    if [ "${CI:-}" = true ]; then
        echo "error: tests were skipped — with CI=true every test must run — install what is named above"
        failed=1
    fi
fi
[ "$failed" -eq 0 ] || { echo "make test: FAILED"; exit 1; }
echo "make test: passed"
