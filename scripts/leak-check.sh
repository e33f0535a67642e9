#!/usr/bin/env bash
# What a test run could leave behind: mounts, loop devices, pools, cgroups, processes, networks, directories.
#   scripts/leak-check.sh list              prints what there is, one thing a line
#   scripts/leak-check.sh compare FILE      fails when there is more than FILE lists
set -euo pipefail
PATH="$PATH:/usr/sbin:/sbin"

list_mounts() {
    # Mount point, type and source; ids change and say nothing.
    awk '{ for (i = 7; i <= NF; i++) if ($i == "-") print "mount", $5, $(i + 1), $(i + 2) }' /proc/self/mountinfo
}

list_loop_devices() {
    local backing
    for backing in /sys/block/loop*/loop/backing_file; do
        [ -e "$backing" ] || continue
        echo "loop $(cut -d/ -f4 <<<"$backing") $(cat "$backing" 2>/dev/null || true)"
    done
}

list_pools() {
    command -v zpool >/dev/null 2>&1 || return 0
    # Without a running ZFS there are no pools; the command then fails, and that is the answer.
    { timeout 10 zpool list -H -o name 2>/dev/null || true; } | sed 's/^/pool /'
}

list_cgroups() {
    { find /sys/fs/cgroup -type d -name 'sandbar*' 2>/dev/null || true; } | sed 's/^/cgroup /'
}

list_processes() {
    local process pid mark="SANDBAR_TEST_RUN=${SANDBAR_TEST_RUN:-none}"
    for process in /proc/[0-9]*; do
        pid=${process#/proc/}
        if [[ "$(readlink "$process/exe" 2>/dev/null)" == */sandbar ]] ||
            [[ "$(readlink "$process/cwd" 2>/dev/null)" == *sandbar-test-* ]] ||
            [[ "$(readlink "$process/root" 2>/dev/null)" == *sandbar-test-* ]] ||
            { tr '\0' '\n' <"$process/environ" | grep -qxF "$mark"; } 2>/dev/null; then
            belongs_to_this_run "$pid" ||
                echo "process $pid $({ tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null | cut -c1-120)"
        fi
    done
}

parent_of() {
    awk '/^PPid:/ { print $2 }' "/proc/$1/status" 2>/dev/null || true
}

# Whether a process is an ancestor or a descendant of this script. A leaked process is neither: its parent is gone.
belongs_to_this_run() {
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

list_networks() {
    # Namespaces without a name end with their last process. Interfaces outside of them, and namespaces with a name, stay.
    { find /sys/class/net /run/netns -mindepth 1 -maxdepth 1 2>/dev/null || true; } | sed 's/^/network /'
}

list_directories() {
    find /var/tmp -maxdepth 1 -name 'sandbar-test-*' 2>/dev/null | sed 's/^/directory /'
}

list_all() {
    { list_mounts; list_loop_devices; list_pools; list_cgroups; list_processes; list_networks; list_directories; } | sort -u
}

case "${1:-}" in
    list) list_all ;;
    compare)
        # The kernel lets go of loop devices and dead processes a moment after their last user: wait for that.
        for _ in $(seq 1 50); do
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
    *)
        echo "usage: scripts/leak-check.sh list | compare FILE" >&2
        exit 2
        ;;
esac
