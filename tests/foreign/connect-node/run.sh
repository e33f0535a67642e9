#!/usr/bin/env bash
# Makes types of our .proto files with the generators from npm, then drives a host with them.
# Usage: URL=... TOKEN=... SESSION=... run.sh NODE_MODULES connect-json|connect|grpc|grpc-web
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
modules=$1
protocol=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tree stays as it is: what is generated lies where the packages are found from, and goes away.
cp "$here/package.json" "$here/buf.gen.yaml" "$here/drive.mjs" "$work"
ln -s "$modules" "$work/node_modules"
cd "$work"
PATH="$modules/.bin:$PATH" buf generate --template buf.gen.yaml "$here/../../../proto"
node drive.mjs "$protocol"
