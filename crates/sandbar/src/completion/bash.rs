//! Completion in bash.

use super::{
    Answer, Candidate,
    line::{Typed, last_command},
    respond_to,
};

/// Script for bash. bash splits words at `:` and `=` and replaces only the part after the last one,
/// so candidates are cut to that part.
pub(super) const SCRIPT: &str = r#"# Completion of sandbar in bash. Load it with: source <(sandbar completion bash)
_sandbar() {
    local lines=() path
    mapfile -t lines < <("${1/#\~/$HOME}" __complete bash "$1" "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    COMPREPLY=("${lines[@]:1}")
    case "${lines[0]-}" in
        *nospace*) compopt -o nospace 2>/dev/null ;;
    esac
    case "${lines[0]-}" in
        files*) path=-f ;;
        directories*) path=-d ;;
        *) return ;;
    esac
    if [ ${#COMPREPLY[@]} -eq 0 ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$path" -- "$2")
    else
        # Not with `-o filenames`: bash would quote the words that are not files as well.
        mapfile -t lines < <(compgen "$path" -- "$2")
        for path in "${lines[@]}"; do
            [ -d "$path" ] && path+=/ && compopt -o nospace 2>/dev/null
            printf -v path %q "$path"
            COMPREPLY+=("$path")
        done
    fi
}
complete -F _sandbar sandbar
"#;

/// Answers a call. Arguments: the command as typed, `COMP_WORDBREAKS`, the line up to the cursor.
pub(super) fn respond(arguments: &[String]) -> Option<String> {
    let [program, breaks, line] = arguments else {
        return None;
    };
    let Typed { words } = last_command(line, program)?;
    let current = words.last()?;
    let kept = current
        .rfind(|character| ":=".contains(character) && breaks.contains(character))
        .map_or(0, |at| at + 1);
    let mut answer = respond_to(&words)?;
    answer.candidates = answer
        .candidates
        .into_iter()
        .filter_map(|candidate| Some(Candidate::plain(candidate.value.get(kept..)?)))
        .collect();
    Some(Answer::lines(&answer, |candidate| candidate.value.clone()))
}
