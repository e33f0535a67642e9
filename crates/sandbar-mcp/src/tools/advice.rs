//! Hints of the host in the words of MCP: its own name commands, which a model on this connection does not have.

use sandbar_core::{Error, ErrorCode};

/// What to do about an error, if there is something the caller can do.
pub(super) fn hint(error: &Error) -> Option<&str> {
    let hint = error.hint()?;
    if !hint.contains("`sandbar ") {
        return Some(hint);
    }
    match error.code() {
        ErrorCode::SessionNotFound => Some("list sandboxes with sandbox_list"),
        ErrorCode::BaseNotFound => match hint.split_once("; add one with") {
            Some((known, _)) => Some(known),
            None => Some("leave `base` out"),
        },
        ErrorCode::PermissionDenied | ErrorCode::Unauthenticated => {
            Some("the token of this connection does not allow it; ask the user")
        }
        _ => Some("this connection has no tool for that; ask the user"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_that_names_a_command_is_put_in_words_of_mcp() {
        let hinted = |code, text: &str| hint(&Error::new(code, "x").with_hint(text)).map(str::to_owned);
        assert_eq!(hinted(ErrorCode::InvalidArgument, "use another").as_deref(), Some("use another"));
        let listed = hinted(ErrorCode::SessionNotFound, "list sessions with `sandbar ls`").unwrap();
        assert!(listed.contains("sandbox_list"), "{listed}");
        let bases = "bases here: a, b; add one with `sandbar base import c SOURCE`";
        assert_eq!(hinted(ErrorCode::BaseNotFound, bases).as_deref(), Some("bases here: a, b"));
        for code in ErrorCode::ALL {
            assert!(!hinted(code, "do it with `sandbar wake x`").unwrap().contains("`sandbar "), "{code:?}");
        }
        assert_eq!(hint(&Error::new(ErrorCode::InvalidArgument, "x")), None);
    }
}
