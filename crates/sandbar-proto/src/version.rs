//! API version and message size limit.

use sandbar_core::{Error, ErrorCode, Result};

/// API version of this program.
pub const API_VERSION: u32 = 1;

/// Oldest API version that a server supports.
pub const OLDEST_API_VERSION: u32 = 1;

/// Header with the API version, in requests and responses. Without it the version is 1.
pub const API_VERSION_HEADER: &str = "x-api-version";

/// Largest message that either side accepts.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Parses a version header; `v1` and `1` are the same.
pub fn parse_api_version(header: &str) -> Result<u32> {
    let text = header.trim();
    let version = text
        .strip_prefix('v')
        .unwrap_or(text)
        .parse::<u32>()
        .map_err(|_| {
            Error::invalid(
                API_VERSION_HEADER,
                format!("API version `{}` is not valid", text.escape_debug()),
            )
            .with_hint(format!(
                "send `{API_VERSION_HEADER}: v{API_VERSION}`, or leave it out"
            ))
        })?;
    if version < OLDEST_API_VERSION {
        return Err(Error::new(
            ErrorCode::InvalidState,
            format!(
                "API version v{version} is no longer served; the oldest is v{OLDEST_API_VERSION}"
            ),
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
    fn version_is_parsed_with_or_without_v_and_checked() {
        assert_eq!(parse_api_version("v1").unwrap(), 1);
        assert_eq!(parse_api_version(" 2 ").unwrap(), 2);
        assert_eq!(
            parse_api_version("v0").unwrap_err().code(),
            ErrorCode::InvalidState
        );
        for bad in ["", "v", "one", "-1", "v1.2"] {
            assert_eq!(
                parse_api_version(bad).unwrap_err().code(),
                ErrorCode::InvalidArgument,
                "{bad:?}"
            );
        }
    }
}
