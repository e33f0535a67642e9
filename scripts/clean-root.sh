#!/usr/bin/env bash
# Writes Debian's smallest root file system, with what the package recommends, as a tar archive.
# Usage: scripts/clean-root.sh FILE
#
# The archive is fetched once and kept in ~/.cache/sandbar, so that later runs need no network.
set -euo pipefail
suite=bookworm
cache="${XDG_CACHE_HOME:-$HOME/.cache}/sandbar/clean-root-$suite.tar"
if [ ! -e "$cache" ]; then
    mkdir -p "$(dirname "$cache")"
    mmdebstrap --quiet --variant=minbase --include=btrfs-progs,ca-certificates "$suite" "$cache.new.tar" >&2
    mv "$cache.new.tar" "$cache"
fi
cp "$cache" "$1"
