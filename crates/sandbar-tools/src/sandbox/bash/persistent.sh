# Runs one command in a shell whose state outlives it.
# $1: the state file, relative to the directory this is started in. $2: the command.
# $3: the file for the output of a background job, or empty. $4: a directory to change to, or empty.
# The rest: NAME=value of variables to set.
#
# Functions are defined, and the last block is parsed, before any state is restored: restored
# aliases cannot change them. `builtin` and `command` bypass restored functions.

__sandbar_prepare() {
    __sandbar_state=$1 __sandbar_command=$2 __sandbar_log=$3 __sandbar_saved=
    if [[ -n $4 ]]; then
        builtin cd -- "$4" || builtin exit 1
    fi
    builtin shift 4
    if (($#)); then
        builtin export -- "$@"
    fi
}

# Leaves the command running with a copy of the state, and says its process id.
__sandbar_background() {
    command mkdir -p /tmp && builtin set -C && : >"$__sandbar_log" && builtin set +C || builtin exit 1
    builtin set -m
    (
        builtin set +m
        builtin eval "$__sandbar_options"
        builtin eval "$__sandbar_command"
    ) >>"$__sandbar_log" 2>&1 </dev/null &
    builtin echo "$!"
    builtin exit
}

# Writes the state down. The command's own exit code is $? when this is called.
__sandbar_save() {
    {
        __sandbar_status=$?
        [[ -z $__sandbar_saved ]] || return "$__sandbar_status"
        __sandbar_saved=yes
        __sandbar_options=$(builtin set +o)
        # A command substitution does not know this one.
        [[ $- != *e* ]] || __sandbar_options+=$'\nset -e'
        builtin set +euxvfnC
    } 2>/dev/null
    (
        __sandbar_mask=$(builtin umask -p)
        builtin umask 077
        builtin unset -f __sandbar_prepare __sandbar_background __sandbar_save
        __sandbar_next=$__sandbar_state.$BASHPID
        command mkdir -p -- "${__sandbar_state%/*}"
        {
            # First, because functions may be written with what these switch on.
            builtin shopt -p
            builtin echo "$__sandbar_mask"
            builtin compgen -v | while IFS= builtin read -r __sandbar_name; do
                case $__sandbar_name in
                    # The shell's own, which it sets by itself.
                    BASH | BASH_* | BASHOPTS | BASHPID | COMP_* | DIRSTACK | EPOCHREALTIME | EPOCHSECONDS) ;;
                    EUID | FUNCNAME | GROUPS | HISTCMD | LINENO | PIPESTATUS | PPID | PWD | RANDOM | SECONDS) ;;
                    SHELLOPTS | SHLVL | SRANDOM | UID | _ | __sandbar_*) ;;
                    *) builtin declare -p -- "$__sandbar_name" ;;
                esac
            done
            builtin declare -f
            builtin declare -F | while IFS=' ' builtin read -r __sandbar_word __sandbar_flags __sandbar_name; do
                [[ $__sandbar_flags != *x* ]] || builtin echo "builtin export -f -- $__sandbar_name"
            done
            builtin alias -p
            builtin printf 'builtin cd -- %q\n' "$PWD"
            builtin printf '__sandbar_options=%q\n' "$__sandbar_options"
        } >"$__sandbar_next" && command mv -f -- "$__sandbar_next" "$__sandbar_state" ||
            builtin echo "sandbar: the state of the shell could not be kept" >&2
    )
    builtin return "$__sandbar_status"
}

{
    __sandbar_options=
    builtin set -- "$PWD/$1" "${@:2}"
    # Only a regular file of this uid is trusted: no link, no file of another uid.
    if [[ -f $1 && -O $1 && ! -L $1 ]]; then
        builtin source "$1"
    fi
    __sandbar_prepare "$@"
    builtin set --
    [[ -z $__sandbar_log ]] || __sandbar_background
    builtin trap __sandbar_save EXIT
    builtin eval "$__sandbar_options"
    builtin eval "$__sandbar_command"
    __sandbar_save
    builtin exit "$__sandbar_status"
}
