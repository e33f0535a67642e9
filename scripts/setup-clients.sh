#!/usr/bin/env bash
# Installs the clients of others that the tests drive a host with, from PyPI and npm, and the shells whose tab key they
# try. Called by setup.sh.
#
# A registry that cannot be reached is not an error: that is said, and remembered for an hour, so that the tests that
# need it are skipped with this reason and the next run does not wait again. When the registry answers, an installation
# that fails is an error.
set -euo pipefail
cd "$(dirname "$0")/../tests"
cache="$HOME/.cache/sandbar"
# One file a registry; sandbar-testing and test.sh read them.
markers="$cache/registry-out-of-reach"

say() { printf 'setup: %s\n' "$*" >&2; }

# Asked with the clients that install, so that whatever this machine is set up with counts. Neither tries again.
PyPI_answers() {
    local scratch answer=0
    scratch=$(mktemp -d)
    python3 -m pip download --quiet --no-deps --no-cache-dir --disable-pip-version-check --retries 0 --timeout 10 \
        --dest "$scratch" six >/dev/null 2>&1 || answer=1
    rm -rf "$scratch"
    return $answer
}
npm_answers() { npm ping --fetch-retries=0 --fetch-timeout=10000 --loglevel=silent >/dev/null 2>&1; }

out_of_reach() {
    local registry=$1
    mkdir -p "$markers"
    printf '%s did not answer\n' "$registry" >"$markers/$registry"
    say "WARNING: $registry cannot be reached — the tests that need packages from it will be SKIPPED"
}

# install REGISTRY DIRECTORY MANIFEST COMMAND...: runs the command, unless what it installs is there.
install() {
    local registry=$1 directory=$2 manifest=$3
    shift 3
    if cmp --silent "$manifest" "$directory/.installed"; then
        return 0
    fi
    if [ -n "$(find "$markers/$registry" -mmin -60 2>/dev/null)" ]; then
        say "$registry was out of reach a while ago, trying again after an hour (or: rm $markers/$registry)"
        return 0
    fi
    if ! "${registry}_answers"; then
        out_of_reach "$registry"
        return 0
    fi
    say "installing the packages of tests/$manifest into $directory"
    mkdir -p "$directory"
    if "$@" "$directory" "$manifest"; then
        cp "$manifest" "$directory/.installed"
        rm -f "$markers/$registry"
    elif ! "${registry}_answers"; then
        out_of_reach "$registry"
    else
        say "error: $registry answers, but the packages of tests/$manifest could not be installed" \
            "— what it said is above — mend that, then run this again"
        exit 1
    fi
}

with_pip() {
    local directory=$1 manifest=$2
    [ -x "$directory/bin/pip" ] || python3 -m venv "$directory"
    "$directory/bin/pip" install --quiet --disable-pip-version-check --retries 0 --timeout 30 --requirement "$manifest"
}

with_npm() {
    local directory=$1 manifest=$2
    cp "$manifest" "$directory/package.json"
    npm install --prefix "$directory" --no-package-lock --no-audit --no-fund --loglevel=error \
        --fetch-retries=0 --fetch-timeout=30000
}

# Shells are no part of what everything else rests on: without them the rest is tested all the same.
install_shells() {
    command -v zsh >/dev/null && command -v fish >/dev/null && return 0
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 0
    [ -z "$(find "$markers/Debian" -mmin -60 2>/dev/null)" ] || return 0
    say "installing zsh and fish"
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get update -qq && apt-get install -y -qq --no-install-recommends zsh fish; } >/dev/null 2>&1; then
        rm -f "$markers/Debian"
    else
        out_of_reach Debian
    fi
}

install_shells
install PyPI "$cache/python" foreign/python.txt with_pip
for client in mcp-1 mcp-2 fastmcp; do
    install PyPI "$cache/mcp/$client" "foreign/$client.txt" with_pip
done
for manifest in foreign/*/package.json; do
    program=$(basename "$(dirname "$manifest")")
    install npm "$cache/node/$program" "$manifest" with_npm
done
for version in 2.7 2.10 2.20 2.30 2.45 newest; do
    install PyPI "$cache/e2b/python-$version" "e2b/python/requirements-$version.txt" with_pip
    install npm "$cache/e2b/js-$version" "e2b/js/$version/package.json" with_npm
done
# What figures, images and data frames of `run_code` are tried with.
for packages in oldest newest; do
    install PyPI "$cache/charts/$packages" "e2b/charts/$packages.txt" with_pip
done
for manifest in frameworks/*/requirements.txt; do
    install PyPI "$cache/frameworks/$(basename "$(dirname "$manifest")")" "$manifest" with_pip
done
for manifest in frameworks/*/package.json; do
    install npm "$cache/frameworks/$(basename "$(dirname "$manifest")")" "$manifest" with_npm
done
