//! `Accept-Encoding` and `Content-Encoding`.

/// Content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
}

/// Chooses the coding of a response. gzip only if the client names nothing else: HTTP libraries
/// accept it by default, while an uncompressed file has a length and costs no CPU. Fails if the
/// client accepts no known coding.
pub(crate) fn accepted(header: Option<&str>) -> Result<Encoding, &'static str> {
    let named: Vec<(String, bool)> = header
        .unwrap_or_default()
        .split(',')
        .filter_map(parse_coding)
        .collect();
    let accepts = |name: &str| {
        named
            .iter()
            .find(|(named, _)| named == name)
            .map(|(_, is_accepted)| *is_accepted)
    };
    let anything_else = accepts("*");
    let identity = accepts("identity").unwrap_or(anything_else != Some(false));
    let gzip = accepts("gzip").or(anything_else).unwrap_or(false);
    let gzip_alone = named
        .iter()
        .filter(|(_, is_accepted)| *is_accepted)
        .all(|(name, _)| name == "gzip");
    match (gzip, identity) {
        (true, false) => Ok(Encoding::Gzip),
        (true, true) if gzip_alone && accepts("identity").is_none() => Ok(Encoding::Gzip),
        (_, true) => Ok(Encoding::Identity),
        (false, false) => Err("no acceptable encoding found, supported: [identity, gzip]"),
    }
}

/// Parses one coding, and whether its quality is not 0.
fn parse_coding(part: &str) -> Option<(String, bool)> {
    let mut fields = part.split(';').map(str::trim);
    let name = fields
        .next()
        .filter(|name| !name.is_empty())?
        .to_ascii_lowercase();
    let quality = fields.find_map(|field| {
        field
            .strip_prefix("q=")
            .or(field.strip_prefix("Q="))?
            .trim()
            .parse()
            .ok()
    });
    Some((name, quality.is_none_or(|quality: f64| quality > 0.0)))
}

/// Returns the coding of a request body.
pub(crate) fn sent(header: Option<&str>) -> Result<Encoding, String> {
    let header = header.unwrap_or_default();
    match parse_coding(header).map(|(name, _)| name).as_deref() {
        None | Some("identity") => Ok(Encoding::Identity),
        Some("gzip") => Ok(Encoding::Gzip),
        Some(_) => Err(format!(
            "unsupported Content-Encoding: {header}, supported: [gzip]"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_compressed_only_if_gzip_alone_is_accepted() {
        for (header, expected) in [
            ("", Ok(Encoding::Identity)),
            ("gzip", Ok(Encoding::Gzip)),
            ("GZIP;q=0.5", Ok(Encoding::Gzip)),
            ("gzip, deflate, br", Ok(Encoding::Identity)),
            ("gzip, identity", Ok(Encoding::Identity)),
            ("gzip, identity;q=0", Ok(Encoding::Gzip)),
            ("*", Ok(Encoding::Identity)),
            ("identity;q=0, *", Ok(Encoding::Gzip)),
            ("gzip;q=0", Ok(Encoding::Identity)),
            ("br", Ok(Encoding::Identity)),
        ] {
            assert_eq!(accepted(Some(header)), expected, "{header}");
        }
        for refused in ["identity;q=0", "identity;q=0, br", "*;q=0"] {
            assert!(accepted(Some(refused)).is_err(), "{refused}");
        }
        assert_eq!(accepted(None), Ok(Encoding::Identity));
        assert_eq!(
            (sent(None), sent(Some("Gzip"))),
            (Ok(Encoding::Identity), Ok(Encoding::Gzip))
        );
        assert!(sent(Some("br")).is_err());
    }
}
