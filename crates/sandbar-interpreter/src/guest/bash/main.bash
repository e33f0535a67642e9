# The bash kernel: runs what comes on one descriptor and tells on another how it ended.
# A request is four texts, each ended by a zero byte: its number, what sets its variables, the code, what unsets them.
# SIGINT ends what the shell waits for, not the shell.
trap : INT
# Fixed numbers, because only those can be closed for one command. High ones, because scripts use the low ones.
exec 198<&"$1" 199>&"$2"
eval "exec $1<&- $2>&-"
shift 2
while IFS= read -r -d '' -u 198 __sandbar_id &&
  IFS= read -r -d '' -u 198 __sandbar_before &&
  IFS= read -r -d '' -u 198 __sandbar_code &&
  IFS= read -r -d '' -u 198 __sandbar_after; do
  eval "$__sandbar_before"
  eval "$__sandbar_code" 198<&- 199>&-
  __sandbar_status=$?
  eval "$__sandbar_after"
  if ((__sandbar_status)); then
    printf '{"type":"error","id":%s,"name":"","value":"%s","traceback":""}\n' \
      "$__sandbar_id" "$__sandbar_status" >&199
  fi
  printf '{"type":"done","id":%s}\n' "$__sandbar_id" >&199
done
