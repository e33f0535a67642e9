//! Which API a caller speaks, and how large a message may be.

use sandbar_core::{Error, ErrorCode, Result};

/// The API this program speaks.
pub const API_VERSION: u32 = 1;

/// The oldest API a server still answers.
pub const OLDEST_API_VERSION: u32 = 1;

/// Carries the API version in requests and in answers. Absent is version 1.
pub const API_VERSION_HEADER: &str = "x-api-version";

/// The largest message either side takes.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Reads a version header; `v1` and `1` are the same.
pub fn parse_api_version(header: &str) -> Result<u32> {
    let text = header.trim();
    let version = text.strip_prefix('v').unwrap_or(text).parse::<u32>().map_err(|_| {
        Error::invalid(API_VERSION_HEADER, format!("API version `{}` is not a version", text.escape_debug()))
            .with_hint(format!("send `{API_VERSION_HEADER}: v{API_VERSION}`, or leave it out"))
    })?;
    if version < OLDEST_API_VERSION {
        return Err(Error::new(
            ErrorCode::InvalidState,
            format!("API version v{version} is no longer served; the oldest is v{OLDEST_API_VERSION}"),
        )
        .with_field(API_VERSION_HEADER)
        .with_hint("update the client"));
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_with_and_without_their_letter_and_old_ones_are_refused() {
        assert_eq!(parse_api_version("v1").unwrap(), 1);
        assert_eq!(parse_api_version(" 2 ").unwrap(), 2);
        assert_eq!(parse_api_version("v0").unwrap_err().code(), ErrorCode::InvalidState);
        for bad in ["", "v", "one", "-1", "v1.2"] {
            assert_eq!(parse_api_version(bad).unwrap_err().code(), ErrorCode::InvalidArgument, "{bad:?}");
        }
    }
}
