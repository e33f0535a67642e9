#!/usr/bin/env bash
# Lists what a test run could leave behind. Called by in-test-run.sh, which gives the run
# namespaces, groups and a directory of its own; SANDBAR_TEST_RUN names the run.
#   scripts/leak-check.sh list              prints what there is, one thing a line
#   scripts/leak-check.sh compare FILE      fails when there is more than FILE lists
#   scripts/leak-check.sh clean             ends processes and detaches loop devices of the run
set -euo pipefail
PATH="$PATH:/usr/sbin:/sbin"
mark="sandbar-test-${SANDBAR_TEST_RUN:?names the run: use scripts/in-test-run.sh}"

# Mounts of this namespace: mount point, type and source.
list_mounts() {
    awk '{ for (i = 7; i <= NF; i++) if ($i == "-") print "mount", $5, $(i + 1), $(i + 2) }' /proc/self/mountinfo
}

# Loop devices over a file of the run.
list_loop_devices() {
    local backing file
    for backing in /sys/block/loop*/loop/backing_file; do
        file=$(cat "$backing" 2>/dev/null) || continue
        [[ "$file" != *"/$mark/"* ]] || echo "loop $(cut -d/ -f4 <<<"$backing") $file"
    done
}

# Pools that have the run in their name.
list_pools() {
    command -v zpool >/dev/null 2>&1 || return 0
    # Without a running ZFS there are no pools; the command then fails, and that is the answer.
    { timeout 10 zpool list -H -o name 2>/dev/null || true; } | { grep -F "$SANDBAR_TEST_RUN" || true; } | sed 's/^/pool /'
}

# Groups below the run's own, which is what is mounted here.
list_cgroups() {
    local hierarchy
    awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/self/mounts | sort -u | while read -r hierarchy; do
        grep -qF "/$mark $hierarchy " /proc/self/mountinfo || continue
        { find "$hierarchy" -mindepth 1 -type d 2>/dev/null || true; } | sed 's/^/cgroup /'
    done
}

# Processes of the run: by environment, groups, working directory, or what is mounted in a namespace
# of their own.
list_processes() {
    local own pid
    own=$(readlink /proc/self/ns/mnt)
    {
        # Processes end while this looks at them.
        set +e
        grep -lzxF "SANDBAR_TEST_RUN=$SANDBAR_TEST_RUN" /proc/[0-9]*/environ
        grep -lF "/$mark/" /proc/[0-9]*/cgroup
        find /proc/[0-9]*/cwd -maxdepth 0 -lname "*/$mark*"
        for mounts in $(grep -lF "/$mark/" /proc/[0-9]*/mountinfo); do
            [ "$(readlink "${mounts%/*}/ns/mnt")" = "$own" ] || echo "$mounts"
        done
        true
    } 2>/dev/null | cut -d/ -f3 | sort -u | while read -r pid; do
        is_of_caller "$pid" || echo "process $pid $({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | cut -c1-120)"
    done
}

parent_of() {
    # The fourth field, after a name in parentheses that may have blanks in it.
    local stat
    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 0
    stat=${stat##*) }
    cut -d' ' -f2 <<<"$stat"
}

# Whether a process has ended, or is an ancestor or a descendant of this script. A leaked process is
# neither: its parent is gone.
is_of_caller() {
    local up=$1
    [ -e "/proc/$1" ] || return 0
    while [ -n "$up" ] && [ "$up" -gt 1 ]; do
        [ "$up" != "$$" ] || return 0
        up=$(parent_of "$up")
    done
    up=$$
    while [ -n "$up" ] && [ "$up" -gt 1 ]; do
        [ "$up" != "$1" ] || return 0
        up=$(parent_of "$up")
    done
    return 1
}

# Interfaces of this namespace. Namespaces without a name end with their last process; one with a
# name is a mount.
list_networks() {
    { ip -oneline link 2>/dev/null || true; } | awk -F': ' '{ sub(/@.*/, "", $2); print "network", $2 }'
}

# Files of the run.
list_directories() {
    find "$TMPDIR" -mindepth 1 -maxdepth 1 | sed 's/^/directory /'
}

list_all() {
    { list_mounts; list_loop_devices; list_pools; list_cgroups; list_processes; list_networks; list_directories; } | sort -u
}

case "${1:-}" in
    list) list_all ;;
    compare)
        # The kernel lets go of loop devices and dead processes a moment after their last user: wait
        # for that.
        for _ in $(seq 1 "${SANDBAR_LEAK_ATTEMPTS:-50}"); do
            left=$(comm -13 "$2" <(list_all))
            [ -n "$left" ] || break
            sleep 0.2
        done
        if [ -n "$left" ]; then
            echo "error: the tests left things behind:"
            while IFS= read -r line; do printf '  %s\n' "$line"; done <<<"$left"
            exit 1
        fi
        echo "leak check: no mount, loop device, pool, cgroup, process, network or directory left behind"
        ;;
    clean)
        list_processes | while read -r _ pid _; do kill -KILL "$pid" 2>/dev/null || true; done
        list_loop_devices | while read -r _ device _; do losetup --detach "/dev/$device" 2>/dev/null || true; done
        ;;
    *)
        echo "usage: scripts/leak-check.sh list | compare FILE | clean" >&2
        exit 2
        ;;
esac
