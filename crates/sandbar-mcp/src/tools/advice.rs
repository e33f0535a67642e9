//! Hints for MCP clients. The host's own hints name CLI commands, which a model cannot run.

use sandbar_core::{Error, ErrorCode};

/// Returns the hint of an error, rewritten if it names a CLI command.
pub(super) fn hint(error: &Error) -> Option<&str> {
    let hint = error.hint()?;
    if !hint.contains("`sandbar ") {
        return Some(hint);
    }
    match error.code() {
        ErrorCode::SessionNotFound => Some("list sandboxes with sandbox_list"),
        ErrorCode::BaseNotFound => match hint.split_once("; add one with") {
            Some((known, _)) => Some(known),
            None => Some("omit `base`"),
        },
        ErrorCode::PermissionDenied | ErrorCode::Unauthenticated => {
            Some("the token of this connection lacks the permission; ask the user")
        }
        _ => Some("no tool of this connection can do that; ask the user"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_that_names_a_command_is_rewritten() {
        let hinted =
            |code, text: &str| hint(&Error::new(code, "x").with_hint(text)).map(str::to_owned);
        assert_eq!(
            hinted(ErrorCode::InvalidArgument, "use another").as_deref(),
            Some("use another")
        );
        let listed = hinted(
            ErrorCode::SessionNotFound,
            "list sessions with `sandbar ls`",
        )
        .unwrap();
        assert!(listed.contains("sandbox_list"), "{listed}");
        let bases = "bases here: a, b; add one with `sandbar base import c SOURCE`";
        assert_eq!(
            hinted(ErrorCode::BaseNotFound, bases).as_deref(),
            Some("bases here: a, b")
        );
        for code in ErrorCode::ALL {
            assert!(
                !hinted(code, "do it with `sandbar wake x`")
                    .unwrap()
                    .contains("`sandbar "),
                "{code:?}"
            );
        }
        assert_eq!(hint(&Error::new(ErrorCode::InvalidArgument, "x")), None);
    }
}
