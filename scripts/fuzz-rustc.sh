#!/usr/bin/env bash
# What `make fuzz` compiles our crates with: cargo calls it in place of rustc for members of the workspace. The libraries
# get the coverage of LLVM's sanitizers, the fuzzer itself and build scripts do not.
set -euo pipefail
rustc=$1
shift
crate=""
previous=""
for argument in "$@"; do
    [ "$previous" = --crate-name ] && crate=$argument
    previous=$argument
done
case $crate in
sandbar_fuzz) exec "$rustc" "$@" -Copt-level=2 ;;
sandbar_*)
    exec "$rustc" "$@" -Copt-level=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
*) exec "$rustc" "$@" ;;
esac
