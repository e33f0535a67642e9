#!/usr/bin/env bash
# Drives a host with `curl`: Connect in JSON, over HTTP/1.1 or over HTTP/2 without TLS.
# Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... curl.sh --http1.1|--http2-prior-knowledge
set -euo pipefail
http=$1
here=$(dirname "$0")

fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
did() { printf '%s: %s\n' "$1" "$2"; }

# call METHOD BODY: the body of the answer on stdout; fails when the answer is an error.
call() { request application/json "$1" --fail-with-body --data "$2"; }

# request TYPE METHOD ARGUMENTS...
request() {
    local type=$1 method=$2
    shift 2
    curl --silent --show-error "$http" --max-time 60 --oauth2-bearer "$TOKEN" --header "content-type: $type" \
        "$URL/sandbar.v1.SandboxService/$method" "$@"
}

# stream METHOD MESSAGE...: the messages of the answer, one a line.
stream() {
    local method=$1
    shift
    printf '%s\n' "$@" | python3 "$here/envelopes.py" pack |
        request application/connect+json "$method" --fail-with-body --no-buffer --data-binary @- |
        python3 "$here/envelopes.py" unpack
}

# field PATH: a value out of the JSON on stdin, the path as words with dots between them.
field() {
    python3 -c '
import functools, json, sys
step = lambda value, key: value[int(key)] if isinstance(value, list) else value[key]
print(functools.reduce(step, sys.argv[1].split("."), json.load(sys.stdin)))' "$1"
}

# has TEXT WANTED
has() { case $1 in *"$2"*) ;; *) fail "\`$2\` is not in: $1" ;; esac; }

tool() {
    call ExecuteTool "{\"sessionId\": \"$SESSION\", \"toolName\": \"$1\", \"toolCallId\": \"$2\", \"params\": $3}"
}

# Calls without side effects also work as GET requests, and answers are compressed on request.
health=$(curl --silent --show-error --fail "$http" --max-time 60 --oauth2-bearer "$TOKEN" --compressed --get \
    "$URL/sandbar.v1.SandboxService/HealthCheck" --data 'connect=v1&encoding=json' --data-urlencode 'message={}' | field status)
[ "$health" = HEALTH_STATUS_HEALTHY ] || fail "the host is $health"
did get "$health"

state=$(call CreateSession "{\"baseSnapshot\": \"host\", \"sessionId\": \"$SESSION\"}" | field session.state)
[ "$state" = SESSION_STATE_ACTIVE ] || fail "the state is $state"
did create "$state"

tool write_file write '{"path": "note.txt", "content": "first\n"}' >/dev/null
content=$(tool read_file read '{"path": "note.txt"}' | field result.content)
has "$content" first
did tool "$content"

did snapshot "$(call CreateSnapshot "{\"sessionId\": \"$SESSION\", \"name\": \"clean\"}" | field snapshot.name)"

code=$(tool bash change '{"cmd": "echo second > note.txt; echo more > extra.txt"}' | field result.exitCode)
[ "$code" = 0 ] || fail "the exit code is $code"
changes=$(stream Diff "{\"sessionId\": \"$SESSION\", \"from\": \"clean\"}")
has "$changes" /workspace/extra.txt
has "$changes" CHANGE_KIND_MODIFIED
did stream "$(printf '%s' "$changes" | wc -c) bytes of changes"

call RollbackSession "{\"sessionId\": \"$SESSION\", \"snapshot\": \"clean\"}" >/dev/null
content=$(tool read_file "read again" '{"path": "note.txt"}' | field result.content)
has "$content" first
did rollback "$content"

refused=$(request application/json RollbackSession --write-out '\n%{http_code} %{http_version}' \
    --data "{\"sessionId\": \"$SESSION\", \"snapshot\": \"never-taken\"}")
status=$(tail -n 1 <<<"$refused")
error=$(head -n 1 <<<"$refused")
case "$http $status" in
    "--http1.1 404 1.1" | "--http2-prior-knowledge 404 2") ;;
    *) fail "the status is $status" ;;
esac
detail=$(field details.0.debug.code <<<"$error")
[ "$detail" = SnapshotNotFound ] || fail "the detail is $detail"
TOKEN=wrong call ListSessions '{}' >/dev/null 2>&1 && fail "a wrong token was taken"
did error "$detail, HTTP $status"

events=$(stream Exec "{\"start\": {\"sessionId\": \"$SESSION\", \"argv\": [\"cat\"], \"stdin\": true}}" \
    '{"stdin": "cGluZwo="}' '{"closeStdin": {}}')
has "$events" cGluZwo=
code=$(tail -n 1 <<<"$events" | field exited.code)
[ "$code" = 0 ] || fail "the exit code is $code"
did exec "ping came back"

call DestroySession "{\"sessionId\": \"$SESSION\"}" >/dev/null
call GetSession "{\"sessionId\": \"$SESSION\"}" >/dev/null 2>&1 && fail "the session is still there"
did destroy gone
