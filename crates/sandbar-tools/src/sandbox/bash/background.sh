# Starts a command in the background and prints its process id.
# $1: the file for its output. $2: the shell. $3: the command.
# The file must be new (noclobber), so that a symbolic link planted at its path is not followed.
mkdir -p /tmp && set -C && : >"$1" && set +C || exit 1
# Job control, where the shell has it, puts the command into a process group of its own, so that it
# can be stopped with all its children.
command set -m 2>/dev/null
"$2" -c "$3" >>"$1" 2>&1 </dev/null &
echo "$!"
