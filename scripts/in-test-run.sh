#!/usr/bin/env bash
# Runs a command as one test run, then checks that the command left nothing behind: no mount, loop
# device, pool, cgroup, process, network interface or file.
#   scripts/in-test-run.sh COMMAND [ARGUMENT...]
#
# A run has a mount and a network namespace, a directory, and a group in every cgroup hierarchy of
# its own. So everything that is found there was made by this run; other runs and hosts on the
# machine are neither seen nor disturbed. A user without root has no namespaces and groups; then
# only directory and processes are checked.
set -euo pipefail
PATH="$PATH:/usr/sbin:/sbin"
check="$(dirname "$(realpath "$0")")/leak-check.sh"

if [ "${1:-}" != --inside ]; then
    # Inside another run, its directory.
    place="/var/tmp${SANDBAR_TEST_RUN:+/sandbar-test-$SANDBAR_TEST_RUN}"
    directory=$(mktemp --directory "$place/sandbar-test-XXXXXX")
    # As open as /var/tmp: some tests run as an ordinary user.
    chmod 1777 "$directory"
    # Every process of the run inherits these; test directories are made in TMPDIR.
    export SANDBAR_TEST_RUN="${directory##*/sandbar-test-}" TMPDIR="$directory"
    if [ "$(id -u)" -eq 0 ]; then
        exec unshare --mount --net --propagation private "$0" --inside "$@"
    fi
    exec "$0" --inside "$@"
fi
shift

directory=$TMPDIR
group="sandbar-test-$SANDBAR_TEST_RUN"

# Where cgroup hierarchies are mounted, each once.
hierarchies() { awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/self/mounts | sort -u; }

# Shows only the run's own group of each hierarchy below /sys/fs/cgroup. Hierarchies that refuse a
# group are left alone.
enter_groups() {
    local hierarchy
    for hierarchy in $(hierarchies); do
        # A v2 group has the controllers that its parent hands down.
        if [ -e "$hierarchy/cgroup.subtree_control" ]; then
            for controller in cpu memory pids; do
                { echo "+$controller" >"$hierarchy/cgroup.subtree_control"; } 2>/dev/null || true
            done
        fi
        if mkdir "$hierarchy/$group" 2>/dev/null; then
            mount --bind "$hierarchy/$group" "$hierarchy"
        fi
    done
}

# The groups were listed by the check; empty ones can go.
leave_groups() {
    local hierarchy
    for hierarchy in $(hierarchies); do
        find "$hierarchy" -mindepth 1 -depth -type d -exec rmdir {} \; 2>/dev/null || true
        umount "$hierarchy" 2>/dev/null || true
        rmdir "$hierarchy/$group" 2>/dev/null || true
    done
}

before=$(mktemp /tmp/sandbar-leak-check-XXXXXX)
finish() {
    # Only what the check has reported can be left by now.
    "$check" clean
    [ "$(id -u)" -ne 0 ] || leave_groups
    rm -rf --one-file-system "$directory"
    rm -f "$before"
}
trap finish EXIT

if [ "$(id -u)" -eq 0 ]; then
    ip link set lo up
    enter_groups
fi
"$check" list >"$before"
outcome=0
"$@" || outcome=$?
"$check" compare "$before" || { [ "$outcome" -ne 0 ] || outcome=1; }
exit "$outcome"
