//! Completion in fish.

use super::respond_to;

pub(super) const SCRIPT: &str = r#"# Completion of sandbar in fish. Load it with: sandbar completion fish | source
# or once and for all with: sandbar completion fish > ~/.config/fish/completions/sandbar.fish
function __sandbar_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] __complete fish $words "$current" 2>/dev/null)
    if test (count $lines) -gt 1
        printf '%s\n' $lines[2..-1]
    end
    switch "$lines[1]"
        case 'files*'
            __fish_complete_path "$current"
        case 'directories*'
            __fish_complete_directories "$current"
    end
end
complete -c sandbar -f -a '(__sandbar_complete)'
"#;

/// Answers a call. Arguments: the words up to the cursor.
pub(super) fn respond(arguments: &[String]) -> Option<String> {
    Some(respond_to(arguments)?.lines_with_help())
}
