#!/usr/bin/env bash
# Drives a host with the official MCP client for TypeScript (`@modelcontextprotocol/sdk` on npm).
# Usage: URL=... TOKEN=... SESSION=... run.sh NODE_MODULES stdio|http
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Packages are found from where a program lies, and the tree has none.
cp "$here/package.json" "$here/drive.mjs" "$work"
ln -s "$1" "$work/node_modules"
node "$work/drive.mjs" "$2"
