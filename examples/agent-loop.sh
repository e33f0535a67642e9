#!/bin/sh
# The loop of agent-loop/, with curl; Python writes and reads the JSON.
#
# SANDBAR_URL is where the host is, SANDBAR_TOKEN its token:
#
#     SANDBAR_TOKEN=$(cat /var/lib/sandbar/token) sh examples/agent-loop.sh
set -eu
url=${SANDBAR_URL:-http://127.0.0.1:9100}

# rpc METHOD JSON: makes one call and prints its answer.
rpc() {
    curl -sS --fail-with-body "$url/sandbar.v1.SandboxService/$1" -d "$2" \
        -H "Authorization: Bearer $SANDBAR_TOKEN" -H 'Content-Type: application/json'
}

# object NAME VALUE...: a JSON object.
object() {
    python3 -c 'import json, sys; print(json.dumps(dict(zip(sys.argv[1::2], sys.argv[2::2]))))' "$@"
}

# field NAME...: a value of the JSON on stdin.
field() {
    python3 -c 'import functools, json, sys; print(functools.reduce(dict.get, sys.argv[1:], json.load(sys.stdin)))' "$@"
}

# tell: the answer of a tool on stdin, as text; fails when the tool did.
tell() {
    python3 -c '
import json, sys
answer = json.load(sys.stdin)["result"]
# Connect JSON leaves out what is empty or false.
for line in answer.get("content", "").splitlines():
    print("  |", line)
if answer.get("isError"):
    print("  failed with exit code", answer.get("exitCode"))
    sys.exit(1)'
}

say() { echo "model: $1"; }

# call TOOL NAME VALUE...: calls a tool and tells what it answered; fails when the tool did.
calls=0
call() {
    tool=$1
    shift
    calls=$((calls + 1))
    echo "call $tool: $2"
    # The host does a call with the same id only once, so a call that was cut off can be made again.
    answer=$(rpc ExecuteTool "{\"sessionId\": \"$session\", \"toolName\": \"$tool\", \"toolCallId\": \"call-$calls\", \
        \"params\": $(object "$@")}") || exit
    printf '%s' "$answer" | tell
}

end_turn() {
    answer=$(rpc TurnComplete "{\"sessionId\": \"$session\"}") || exit
    last_turn=$(printf '%s' "$answer" | field snapshot name)
    echo "turn over: $last_turn"
}

go_back() {
    rpc RollbackSession "{\"sessionId\": \"$session\", \"snapshot\": \"$last_turn\"}" > /dev/null || exit
    echo "rolled back"
}

# attempt PLAN COMMAND: tries something; what went wrong is taken back.
attempt() {
    say "$1"
    if call bash cmd "$2" && call bash cmd "sh check.sh"; then
        end_turn
        return
    fi
    say "that went wrong: back to the end of the last turn"
    go_back
    return 1
}

answer=$(rpc CreateSession '{"baseSnapshot": "host"}')
session=$(printf '%s' "$answer" | field session sessionId)
trap 'rpc DestroySession "{\"sessionId\": \"$session\"}" > /dev/null' EXIT

say "first the names, and a check that says when the work is done"
call write_file path names.txt content "Ada
Grace
"
call write_file path check.sh content "grep -qx Ada names.txt || { echo 'names.txt was spoilt'; exit 1; }
grep -qx 'Hello, Grace!' greetings.txt && echo 'all good'
"
end_turn

attempt "the quickest way is to change the names where they are" \
    "sed -i 's/.*/Hello, &!/' names.txt && cp names.txt greetings.txt" ||
    attempt "this time the names stay as they are" \
        "sed 's/.*/Hello, &!/' names.txt > greetings.txt"
echo "done: greetings.txt greets everybody"
