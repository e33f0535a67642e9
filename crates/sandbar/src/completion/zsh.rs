//! Completion in zsh.

use super::respond_to;

pub(super) const SCRIPT: &str = r#"#compdef sandbar
# Completion of sandbar in zsh. Load it with: source <(sandbar completion zsh)
# or once and for all with: sandbar completion zsh > "${fpath[1]}/_sandbar"
_sandbar() {
    local line
    local -a lines values shown options
    lines=("${(@f)$("${(Q)words[1]/#\~/$HOME}" __complete zsh "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    for line in "${(@)lines[2,-1]}"; do
        [[ -n $line ]] || continue
        values+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
    done
    [[ $lines[1] == *nospace* ]] && options=(-S '')
    (( $#values )) && compadd "${options[@]}" -l -d shown -a values
    case $lines[1] in
        files*) _files ;;
        directories*) _files -/ ;;
    esac
}
if [[ $funcstack[1] == _sandbar ]]; then
    _sandbar "$@"
else
    compdef _sandbar sandbar
fi
"#;

/// Answers a call. Arguments: the words up to the cursor.
pub(super) fn respond(arguments: &[String]) -> Option<String> {
    Some(respond_to(arguments)?.lines_with_help())
}
