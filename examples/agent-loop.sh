#!/bin/sh
# The loop of agent-loop/, with curl; Python writes and reads the JSON.
#
# SANDBAR_URL is the address of the host, SANDBAR_TOKEN its token:
#
#     SANDBAR_TOKEN=$(cat /var/lib/sandbar/token) sh examples/agent-loop.sh
set -eu
url=${SANDBAR_URL:-http://127.0.0.1:9100}

# rpc METHOD JSON: makes one call and prints its answer.
rpc() {
    curl -sS --fail-with-body "$url/sandbar.v1.SandboxService/$1" -d "$2" \
        -H "Authorization: Bearer $SANDBAR_TOKEN" -H 'Content-Type: application/json'
}

# object NAME VALUE...: prints a JSON object.
object() {
    python3 -c 'import json, sys; print(json.dumps(dict(zip(sys.argv[1::2], sys.argv[2::2]))))' "$@"
}

# field NAME...: prints a value of the JSON on stdin.
field() {
    python3 -c 'import functools, json, sys; print(functools.reduce(dict.get, sys.argv[1:], json.load(sys.stdin)))' "$@"
}

# show: prints the result of a tool on stdin as text; fails if the tool failed.
show() {
    python3 -c '
import json, sys
answer = json.load(sys.stdin)["result"]
# Connect JSON omits empty and false fields.
for line in answer.get("content", "").splitlines():
    print("  |", line)
if answer.get("isError"):
    print("  failed with exit code", answer.get("exitCode"))
    sys.exit(1)'
}

say() { echo "model: $1"; }

# call TOOL NAME VALUE...: calls a tool and prints its result; fails if the tool failed.
calls=0
call() {
    tool=$1
    shift
    calls=$((calls + 1))
    echo "call $tool: $2"
    # The host runs a call id only once, so an interrupted call can be repeated.
    answer=$(rpc ExecuteTool "{\"sessionId\": \"$session\", \"toolName\": \"$tool\", \"toolCallId\": \"call-$calls\", \
        \"params\": $(object "$@")}") || exit
    printf '%s' "$answer" | show
}

end_turn() {
    answer=$(rpc TurnComplete "{\"sessionId\": \"$session\"}") || exit
    last_turn=$(printf '%s' "$answer" | field snapshot name)
    echo "turn over: $last_turn"
}

rollback() {
    rpc RollbackSession "{\"sessionId\": \"$session\", \"snapshot\": \"$last_turn\"}" > /dev/null || exit
    echo "rolled back"
}

# attempt PLAN COMMAND: makes an attempt, and rolls back if it fails.
attempt() {
    say "$1"
    if call bash cmd "$2" && call bash cmd "sh check.sh"; then
        end_turn
        return
    fi
    say "that went wrong: back to the end of the last turn"
    rollback
    return 1
}

answer=$(rpc CreateSession '{"baseSnapshot": "host"}')
session=$(printf '%s' "$answer" | field session sessionId)
trap 'rpc DestroySession "{\"sessionId\": \"$session\"}" > /dev/null' EXIT

say "first the names, and a check that says when the work is done"
call write_file path names.txt content "Ada
Grace
"
call write_file path check.sh content "grep -qx Ada names.txt || { echo 'names.txt was overwritten'; exit 1; }
grep -qx 'Hello, Grace!' greetings.txt && echo 'all good'
"
end_turn

attempt "the quickest way is to change the names where they are" \
    "sed -i 's/.*/Hello, &!/' names.txt && cp names.txt greetings.txt" ||
    attempt "this time the names stay as they are" \
        "sed 's/.*/Hello, &!/' names.txt > greetings.txt"
echo "done: greetings.txt greets everyone"
