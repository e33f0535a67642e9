//! Which encodings of a content are asked for and sent.

/// How a content goes over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
}

/// What an answer is to be encoded with. It is compressed for those who take nothing else: libraries offer to take it with
/// every request, and a content that is sent as it is has a length and costs nothing. The error: nothing of what they
/// would take is known here.
pub(crate) fn accepted(header: Option<&str>) -> Result<Encoding, &'static str> {
    let named: Vec<(String, bool)> = header.unwrap_or_default().split(',').filter_map(named).collect();
    let takes = |name: &str| named.iter().find(|(named, _)| named == name).map(|(_, is_taken)| *is_taken);
    let anything_else = takes("*");
    let identity = takes("identity").unwrap_or(anything_else != Some(false));
    let gzip = takes("gzip").or(anything_else).unwrap_or(false);
    let gzip_alone = named.iter().filter(|(_, is_taken)| *is_taken).all(|(name, _)| name == "gzip");
    match (gzip, identity) {
        (true, false) => Ok(Encoding::Gzip),
        (true, true) if gzip_alone && takes("identity").is_none() => Ok(Encoding::Gzip),
        (_, true) => Ok(Encoding::Identity),
        (false, false) => Err("no acceptable encoding found, supported: [identity, gzip]"),
    }
}

/// A coding, and whether it is taken at all.
fn named(part: &str) -> Option<(String, bool)> {
    let mut fields = part.split(';').map(str::trim);
    let name = fields.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
    let quality = fields.find_map(|field| field.strip_prefix("q=").or(field.strip_prefix("Q="))?.trim().parse().ok());
    Some((name, quality.is_none_or(|quality: f64| quality > 0.0)))
}

/// What a request is encoded with.
pub(crate) fn sent(header: Option<&str>) -> Result<Encoding, String> {
    let header = header.unwrap_or_default();
    match named(header).map(|(name, _)| name).as_deref() {
        None | Some("identity") => Ok(Encoding::Identity),
        Some("gzip") => Ok(Encoding::Gzip),
        Some(_) => Err(format!("unsupported Content-Encoding: {header}, supported: [gzip]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_compressed_for_those_who_ask_for_it() {
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
        assert_eq!((sent(None), sent(Some("Gzip"))), (Ok(Encoding::Identity), Ok(Encoding::Gzip)));
        assert!(sent(Some("br")).is_err());
    }
}
