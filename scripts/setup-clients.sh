#!/usr/bin/env bash
# Installs the clients of others that the tests drive a host with, from PyPI and npm. Called by setup.sh.
#
# A registry that cannot be reached is not an error: that is said, and remembered for an hour, so that the tests that
# need it are skipped with this reason and the next run does not wait again. When the registry answers, an installation
# that fails is an error.
set -euo pipefail
cd "$(dirname "$0")/../tests/foreign"
cache="$HOME/.cache/sandbar"
# One file a registry; sandbar-testing and test.sh read them.
markers="$cache/registry-out-of-reach"

say() { printf 'setup: %s\n' "$*" >&2; }

# Any answer will do: a registry that is there and says no is a different trouble.
answers() { curl --silent --output /dev/null --connect-timeout 5 --max-time 10 "$1"; }

out_of_reach() {
    local registry=$1 address=$2
    mkdir -p "$markers"
    printf '%s did not answer\n' "$address" >"$markers/$registry"
    say "WARNING: $address cannot be reached — the tests that need packages from $registry will be SKIPPED"
}

# install REGISTRY ADDRESS DIRECTORY MANIFEST COMMAND...: runs the command, unless what it installs is there.
install() {
    local registry=$1 address=$2 directory=$3 manifest=$4
    shift 4
    if cmp --silent "$manifest" "$directory/.installed"; then
        return 0
    fi
    if [ -n "$(find "$markers/$registry" -mmin -60 2>/dev/null)" ]; then
        say "$registry was out of reach a while ago, trying again after an hour (or: rm $markers/$registry)"
        return 0
    fi
    if ! answers "$address"; then
        out_of_reach "$registry" "$address"
        return 0
    fi
    say "installing the packages of tests/foreign/$manifest into $directory"
    mkdir -p "$directory"
    if "$@" "$directory" "$manifest"; then
        cp "$manifest" "$directory/.installed"
        rm -f "$markers/$registry"
    elif ! answers "$address"; then
        out_of_reach "$registry" "$address"
    else
        say "error: $registry answers, but the packages of tests/foreign/$manifest could not be installed" \
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

pypi=${PIP_INDEX_URL:-$(python3 -m pip config get global.index-url 2>/dev/null || echo https://pypi.org/simple)}
install PyPI "${pypi%/}/" "$cache/python" python.txt with_pip

npm=$(npm config get registry 2>/dev/null || echo https://registry.npmjs.org/)
for manifest in */package.json; do
    install npm "$npm" "$cache/node/${manifest%/package.json}" "$manifest" with_npm
done
