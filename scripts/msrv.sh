#!/usr/bin/env bash
# Checks the workspace with the Rust version that `rust-version` in Cargo.toml promises.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
case "$(rustc --version)" in
    "rustc $wanted."*) cargo check --workspace --all-targets --locked ;;
    *)
        rustup toolchain install "$wanted" --profile minimal
        cargo "+$wanted" check --workspace --all-targets --locked
        ;;
esac
