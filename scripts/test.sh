#!/usr/bin/env bash
# Runs tests, then looks at what they left behind. Usage: scripts/test.sh [quick | full | rest]
# [NEXTEST ARGUMENT...]
#
#   quick  what `make test` runs: see the default filter in .config/nextest.toml
#   full   everything, long tests at full length
#   rest   what `full` has and `quick` has not: the tests left out, and the long ones at full length
#
# Further arguments go to nextest: scripts/test.sh quick -E 'test(rollback)'.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}"
PATH="$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin"

# Tests whose length is SANDBAR_TEST_SCALE.
long_tests='binary_id(sandbar::kill) | binary_id(sandbar::hostile) | binary_id(sandbar-host::model) | test(/diff_equals_a_brute_force/)
    | (binary_id(sandbar-storage::zfs) & test(/^(killed|signals)::/)) | (binary_id(sandbar-server::api) & test(/^malformed::/))
    | test(/^streams::.*_uses_bounded_memory/) | binary_id(sandbar-interpreter::guest)
    | test(/the_host_stays_small|_in_bounded_memory|little_is_ever_in_memory|over_many_pauses/)'

tier=quick
case "${1:-}" in
    quick | full | rest)
        tier=$1
        shift
        ;;
esac
profile=$tier
selection=()
case "$tier" in
    full) export SANDBAR_TEST_SCALE="${SANDBAR_TEST_SCALE:-100}" ;;
    rest)
        export SANDBAR_TEST_SCALE="${SANDBAR_TEST_SCALE:-100}"
        # `default()` is the filter of the profile.
        profile=quick
        selection=(--ignore-default-filter -E "not default() | $long_tests")
        ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A test that cannot run on this machine appends one line here: its name and the reason.
export SANDBAR_SKIP_REPORT="$work/skipped"
: >"$SANDBAR_SKIP_REPORT"
# Most tests wait for the kernel, a file system or a container a third of their time.
export NEXTEST_TEST_THREADS="${NEXTEST_TEST_THREADS:-$((($(nproc) * 3 + 1) / 2))}"
# Snapshots are compared, never written.
export INSTA_UPDATE=no

failed=0
# Where nextest writes, and where results are kept.
junit="target/nextest/$profile/junit.xml"
results="$CARGO_TARGET_DIR/nextest"
mkdir -p "$results"
# Built out here: inside of a test run there is no network but its own.
cargo nextest run --workspace --profile "$profile" --no-run
rm -f "$junit"
# Tests of the E2B SDKs append their counts; `rest` completes what `quick` has begun.
export SANDBAR_SDK_REPORT="$results/sdk-report.tsv"
[ "$tier" = rest ] || : >"$SANDBAR_SDK_REPORT"
scripts/in-test-run.sh cargo nextest run --workspace --profile "$profile" "${selection[@]}" "$@" || failed=1
if [ "$tier" != rest ]; then
    if scripts/in-test-run.sh cargo test --workspace --doc --quiet >"$work/doc" 2>&1; then
        echo "doc tests: $(awk '/^test result/ { passed += $4 } END { print passed + 0 }' "$work/doc") passed"
    else
        cat "$work/doc"
        failed=1
    fi
fi
if [ -e "$junit" ]; then
    cp "$junit" "$results/junit-$tier.xml"
    scripts/slowest-tests.py "$results/junit-$tier.xml"
fi

# A report of chosen tests alone is not the whole table.
if [ "$failed$#" = 00 ] && [ "$tier" != quick ]; then
    check=()
    [ "${CI:-}" != true ] || check=(--check)
    scripts/sdk-table.py "${check[@]}" "$SANDBAR_SDK_REPORT" || failed=1
fi

if [ -s "$SANDBAR_SKIP_REPORT" ]; then
    printf '\nSKIPPED: %s test(s) could not run on this machine\n' "$(sort -u "$SANDBAR_SKIP_REPORT" | wc -l)"
    sort -u "$SANDBAR_SKIP_REPORT" | sed 's/^/  /'
    if [ "${CI:-}" = true ]; then
        echo "error: tests were skipped — with CI=true every test must run — install what is named above"
        failed=1
    fi
fi
[ "$failed" -eq 0 ] || { echo "$tier tests: FAILED"; exit 1; }
echo "$tier tests: passed"
