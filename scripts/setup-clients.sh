#!/usr/bin/env bash
# Installs the clients and tools from PyPI and npm that the tests use, below ~/.cache/sandbar.
# Called by setup.sh.
#
# An installation that fails is tried three times, then it is an error: the tests have no way to go
# on without it.
set -euo pipefail
cd "$(dirname "$0")/../tests"
cache="$HOME/.cache/sandbar"

# "registry directory manifest": the directory is below the cache, the manifest below tests/.
clients=("PyPI python foreign/python.txt")
for client in mcp-1 mcp-2 fastmcp; do
    clients+=("PyPI mcp/$client foreign/$client.txt")
done
for manifest in foreign/*/package.json; do
    clients+=("npm node/$(basename "$(dirname "$manifest")") $manifest")
done
for version in 2.7 2.10 2.20 2.30 2.45 newest; do
    clients+=("PyPI e2b/python-$version e2b/python/requirements-$version.txt")
    clients+=("npm e2b/js-$version e2b/js/$version/package.json")
done
# Figures, images and data frames of `run_code` are tested with these.
for packages in oldest newest; do
    clients+=("PyPI charts/$packages e2b/charts/$packages.txt")
done
# A Node that strips the types of TypeScript itself.
clients+=("npm node/node-24 e2b/node-24/package.json")
for manifest in frameworks/*/requirements.txt; do
    clients+=("PyPI frameworks/$(basename "$(dirname "$manifest")") $manifest")
done
for manifest in frameworks/*/package.json; do
    clients+=("npm frameworks/$(basename "$(dirname "$manifest")") $manifest")
done

say() { printf 'setup: %s\n' "$*" >&2; }

install_from_PyPI() {
    local directory=$1 manifest=$2
    [ -x "$directory/bin/pip" ] || python3 -m venv "$directory"
    "$directory/bin/pip" install --quiet --disable-pip-version-check --timeout 30 --requirement "$manifest"
}

install_from_npm() {
    local directory=$1 manifest=$2
    cp "$manifest" "$directory/package.json"
    npm install --prefix "$directory" --no-package-lock --no-audit --no-fund --loglevel=error --fetch-timeout=30000
}

# install REGISTRY DIRECTORY MANIFEST: does nothing where exactly this manifest is installed.
install() {
    local registry=$1 directory="$cache/$2" manifest=$3 attempt
    cmp --silent "$manifest" "$directory/.installed" && return 0
    say "installing the packages of tests/$manifest into $directory"
    mkdir -p "$directory"
    for attempt in 1 2 3; do
        if "install_from_$registry" "$directory" "$manifest"; then
            # Written last: a directory without it is incomplete.
            cp "$manifest" "$directory/.installed"
            return 0
        fi
        say "attempt $attempt of 3 failed"
        sleep "$attempt"
    done
    say "error: the packages of tests/$manifest could not be installed from $registry" \
        "— the output is above — check the network and the registry settings, then run this again"
    exit 1
}

mkdir -p "$cache"
# Two runs on one machine share the cache.
exec 9>"$cache/.setup-lock"
flock 9
for client in "${clients[@]}"; do
    read -r registry directory manifest <<<"$client"
    install "$registry" "$directory" "$manifest"
done
