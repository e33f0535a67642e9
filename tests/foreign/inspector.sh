#!/usr/bin/env bash
# Drives a host through the command line of the MCP Inspector (`@modelcontextprotocol/inspector` on
# npm). Every call is a new client: only the sandbox keeps state between them.
#
# The runner that installs it and starts this is in crates/sandbar/tests/foreign.
# Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... inspector.sh stdio|http
#        INSPECTOR: its command, by default `npx @modelcontextprotocol/inspector`
#        SANDBAR: path of `sandbar`, for stdio
set -euo pipefail

read -ra inspector <<< "${INSPECTOR:-npx @modelcontextprotocol/inspector}"
case $1 in
stdio)
    target=("${SANDBAR:-sandbar}" mcp)
    # It does not pass its own environment on.
    extra=(-e "SANDBAR_URL=$URL" -e "SANDBAR_TOKEN=$TOKEN")
    ;;
http)
    target=("$URL/mcp")
    extra=(--transport http --header "Authorization: Bearer $TOKEN")
    ;;
*)
    echo "say stdio or http" >&2
    exit 2
    ;;
esac

# The answer of a method, as JSON.
ask() { "${inspector[@]}" --cli "${target[@]}" "${extra[@]}" --method "$@"; }

# The answer of a tool: arguments as KEY=VALUE.
tool() {
    local name=$1 arguments=()
    shift
    for pair in "$@"; do arguments+=(--tool-arg "$pair"); done
    ask tools/call --tool-name "$name" "${arguments[@]}"
}

# Reads an answer with a line of Python: `it` is the answer.
look() { python3 -c "import json, sys; it = json.load(sys.stdin); $1"; }

ask tools/list | look 'assert {"bash", "sandbox_create", "snapshot", "rollback"} <= {t["name"] for t in it["tools"]}, it'

tool sandbox_create "id=$SESSION" | look 'print("create:", it["structuredContent"]["sandbox"])'
tool write_file "sandbox=$SESSION" path=a.txt content=one | look 'assert not it["isError"], it'
tool bash "sandbox=$SESSION" 'cmd=cat a.txt' | look 'assert it["content"][0]["text"] == "one", it; print("tool: one")'
tool snapshot "sandbox=$SESSION" name=before | look 'print("snapshot:", it["structuredContent"]["snapshot"])'
tool bash "sandbox=$SESSION" 'cmd=echo two > a.txt' | look 'assert not it["isError"], it'
tool rollback "sandbox=$SESSION" snapshot=before | look 'assert not it["isError"], it'
tool bash "sandbox=$SESSION" 'cmd=cat a.txt' | look 'assert it["content"][0]["text"] == "one", it; print("rollback: one")'
# Later versions end with a code of their own when a tool has failed.
(tool rollback "sandbox=$SESSION" snapshot=gone || true) |
    look 'assert it["isError"] and "gone" in it["content"][0]["text"], it; print("error:", it["content"][0]["text"].splitlines()[0])'
tool sandbox_destroy "sandbox=$SESSION" | look 'print("destroy:", it["structuredContent"]["destroyed"])'
