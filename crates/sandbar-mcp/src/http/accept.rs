//! `accept` header.

use http::{HeaderMap, HeaderValue, header};

/// Value that the protocol requires of clients.
const REQUIRED: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Replaces the header of a client that accepts JSON, or has no `accept`, by what the protocol
/// requires: `rmcp` rejects anything else. Returns whether the client accepts an event stream.
pub(super) fn widen(headers: &mut HeaderMap) -> bool {
    let fields: Vec<&str> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|field| field.to_str().ok())
        .collect();
    let takes = |form: &str| {
        let ranges = fields
            .iter()
            .flat_map(|field| field.split(','))
            .filter_map(|range| range.split(';').next());
        fields.is_empty()
            || ranges
                .map(str::trim)
                .any(|range| range.eq_ignore_ascii_case(form) || range == "*/*")
    };
    let (json, events) = (takes("application/json"), takes("text/event-stream"));
    if json {
        headers.insert(header::ACCEPT, REQUIRED);
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_header_of_a_json_client_is_widened() {
        let widened = |field: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(field) = field {
                headers.insert(header::ACCEPT, field.parse().unwrap());
            }
            (
                widen(&mut headers),
                headers.get(header::ACCEPT) == Some(&REQUIRED),
            )
        };
        assert_eq!(widened(None), (true, true));
        assert_eq!(widened(Some("*/*")), (true, true));
        assert_eq!(
            widened(Some("Application/JSON;q=0.5, text/event-stream")),
            (true, true)
        );
        assert_eq!(widened(Some("application/json")), (false, true));
        assert_eq!(widened(Some("text/event-stream")), (true, false));
        assert_eq!(widened(Some("text/html")), (false, false));
    }
}
