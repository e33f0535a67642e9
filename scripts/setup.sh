#!/usr/bin/env bash
# Installs what is missing. Usage: scripts/setup.sh [program] [tests] [tools] [fuzz] [fuzz-seeds]
# [dist] [docs]
#
#   program     what `sandbar` needs to build and to use its best storage
#   tests       the backends and peers the tests run against
#   tools       cargo-nextest, cargo-deny, cargo-machete
#   fuzz        cargo-fuzz, and the C++ compiler libFuzzer is built with
#   fuzz-seeds  the compiler only
#   dist        what builds the release files: cargo-deb, cargo-sbom, mmdebstrap, umoci
#   docs        mdbook
#
# As root on Debian and its kin, packages are installed. Otherwise they are named, with the line to
# type.
set -euo pipefail

# "what package": a command or a library is what we look for, so that other distributions' packages
# count too.
program_needs=(
    "cc gcc"
    "libc.a libc6-dev"
    "mkfs.btrfs btrfs-progs"
)
test_needs=(
    "mkfs.xfs xfsprogs"
    "zfs-fuse zfs-fuse"
    "getfattr attr"
    "setfacl acl"
    "tar tar"
    "zstd zstd"
    "skopeo skopeo"
    "umoci umoci"
    "runsc runsc"
    "bwrap bubblewrap"
    "crun crun"
    "git git"
    "curl curl"
    "node nodejs"
    "npm npm"
    "javac default-jdk-headless"
    "R r-base-core"
    "openssl openssl"
    "strace strace"
    "ip iproute2"
    "nft nftables"
    "perl perl"
    "python3 python3-venv"
    "/usr/bin/python3 python3"
    "/usr/lib/python3/dist-packages/PIL python3-pil"
    "/usr/lib/python3/dist-packages/numpy python3-numpy"
    "tmux tmux"
    "zsh zsh"
    "fish fish"
    "less less"
    "vi vim-tiny"
    "top procps"
    "sudo sudo"
)

fuzz_needs=(
    "c++ g++"
    "setpriv util-linux"
)

dist_needs=(
    "mmdebstrap mmdebstrap"
    "umoci umoci"
    "skopeo skopeo"
    "zstd zstd"
)

# Administration commands are often not on an ordinary user's PATH.
PATH="$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin"

say() { printf 'setup: %s\n' "$*" >&2; }

install_packages() {
    local packages=("$@")
    say "installing ${packages[*]}"
    local log policy=/usr/sbin/policy-rc.d
    log=$(mktemp)
    # A package that brings a daemon (zfs-fuse) must not start it: the tests start their own.
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        say "error: apt-get could not install ${packages[*]} — its last lines are above — mend that, then run this again"
        exit 1
    fi
    rm -f "$log"
}

# A need is met by a command, by a path, or by a file the compiler finds.
is_there() {
    case "$1" in
        *.a) [ -e "$(cc -print-file-name="$1" 2>/dev/null)" ] ;;
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

require_packages() {
    local missing=() need
    for need in "$@"; do
        is_there "${need%% *}" || missing+=("${need##* }")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        install_packages "${missing[@]}"
    else
        say "missing packages: ${missing[*]}"
        if command -v apt-get >/dev/null 2>&1; then
            say "hint: sudo apt-get install ${missing[*]}"
        else
            say "hint: install them with your distribution's package program; the names above are Debian's"
        fi
        say "going on without them: what depends on them says so"
    fi
}

require_cargo() {
    command -v cargo >/dev/null 2>&1 && return 0
    say "error: cargo is missing — Sandbar is built with Rust 1.95 or newer — install it with rustup (https://rustup.rs)"
    exit 1
}

# Tools are built outside the repository, whose cargo configuration (static linking, explicit
# target) is not for them, and lightly optimised: they run for seconds and would build for minutes.
require_tool() {
    local tool=$1
    command -v "$tool" >/dev/null 2>&1 && return 0
    say "building $tool (once)"
    (
        cd /
        unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET CARGO_BUILD_RUSTFLAGS
        CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}/tools" \
            CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
            CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
            cargo install --locked --quiet "$tool"
    )
}

[ $# -gt 0 ] || set -- program
for set in "$@"; do
    case "$set" in
        program)
            require_packages "${program_needs[@]}"
            require_cargo
            ;;
        tests)
            require_packages "${test_needs[@]}"
            "$(dirname "$0")/setup-clients.sh"
            require_cargo
            require_tool cargo-nextest
            ;;
        tools)
            require_cargo
            require_tool cargo-nextest
            require_tool cargo-deny
            require_tool cargo-machete
            ;;
        fuzz | fuzz-seeds)
            require_packages "${fuzz_needs[@]}"
            require_cargo
            [ "$set" = fuzz-seeds ] || require_tool cargo-fuzz
            ;;
        dist)
            require_packages "${dist_needs[@]}"
            require_cargo
            require_tool cargo-deb
            require_tool cargo-sbom
            ;;
        docs)
            require_cargo
            require_tool mdbook
            ;;
        *)
            say "error: unknown set \`$set\` — there are program, tests, tools, fuzz, fuzz-seeds, dist and docs — run scripts/setup.sh program tests"
            exit 2
            ;;
    esac
done
