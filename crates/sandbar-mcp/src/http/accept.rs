//! Which forms of answers a client takes.

use http::{HeaderMap, HeaderValue, header};

/// What the protocol wants a client to send.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Lets clients that take JSON, or do not say what they take, in as if they had sent what the protocol wants. Returns
/// whether events are taken.
pub(super) fn widen(headers: &mut HeaderMap) -> bool {
    let fields: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|field| field.to_str().ok()).collect();
    let takes = |form: &str| {
        let ranges = fields.iter().flat_map(|field| field.split(',')).filter_map(|range| range.split(';').next());
        fields.is_empty() || ranges.map(str::trim).any(|range| range.eq_ignore_ascii_case(form) || range == "*/*")
    };
    let (json, events) = (takes("application/json"), takes("text/event-stream"));
    if json {
        headers.insert(header::ACCEPT, BOTH);
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_of_any_client_that_takes_json_is_widened() {
        let widened = |field: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(field) = field {
                headers.insert(header::ACCEPT, field.parse().unwrap());
            }
            (widen(&mut headers), headers.get(header::ACCEPT) == Some(&BOTH))
        };
        assert_eq!(widened(None), (true, true));
        assert_eq!(widened(Some("*/*")), (true, true));
        assert_eq!(widened(Some("Application/JSON;q=0.5, text/event-stream")), (true, true));
        assert_eq!(widened(Some("application/json")), (false, true));
        assert_eq!(widened(Some("text/event-stream")), (true, false));
        assert_eq!(widened(Some("text/html")), (false, false));
    }
}
