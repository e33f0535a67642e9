# Leaves a command running: $1 is the file its output goes to, $2 the shell, $3 the command. Says its process id.
# The file is made here and must be new, so that a link somebody left in its place is not followed.
mkdir -p /tmp && set -C && : >"$1" && set +C || exit 1
# A process group of its own, where the shell can do that, so that it can be stopped with all it started.
command set -m 2>/dev/null
"$2" -c "$3" >>"$1" 2>&1 </dev/null &
echo "$!"
