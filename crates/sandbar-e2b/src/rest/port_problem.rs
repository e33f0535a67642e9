//! Responses for a port that cannot be reached. Clients parse these texts.

use axum::{body::Body, response::IntoResponse as _};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::json;

use super::{cors, json::Json};
use crate::protocol::{SANDBOX, TRAFFIC_TOKEN};

/// Parts of `User-Agent` that identify a browser.
const BROWSERS: [&str; 7] = [
    "mozilla", "chrome", "safari", "firefox", "edge", "opera", "msie",
];

/// Why a port cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProblem {
    /// The sandbox does not exist, or does not run.
    NotFound,
    /// No process listens on the port, or it closed the connection.
    NotOpen,
    /// A token is required and none was sent.
    NoToken,
    WrongToken,
}

impl PortProblem {
    /// Returns the response to a request with these headers: HTML for a browser, else JSON.
    pub fn response(self, sandbox: &str, port: u16, headers: &HeaderMap) -> Response<Body> {
        let (status, message) = self.status_and_message();
        let mut response = if is_browser(headers) {
            let body = page(&message, sandbox, port);
            (
                status,
                [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
                body,
            )
                .into_response()
        } else {
            let mut body =
                json!({ "sandboxId": sandbox, "message": message, "code": status.as_u16() });
            if self == Self::NotOpen {
                body["port"] = port.into();
            }
            let mut response = (status, Json(body)).into_response();
            let kind = HeaderValue::from_static("application/json; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        };
        cors::allow(response.headers_mut());
        response
            .headers_mut()
            .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn status_and_message(self) -> (StatusCode, String) {
        let secured = "Sandbox is secured with traffic access token.";
        match self {
            Self::NotFound => (
                StatusCode::BAD_GATEWAY,
                "The sandbox was not found".to_owned(),
            ),
            Self::NotOpen => (
                StatusCode::BAD_GATEWAY,
                "The sandbox is running but port is not open".to_owned(),
            ),
            Self::NoToken => (
                StatusCode::FORBIDDEN,
                format!("{secured} Token header '{TRAFFIC_TOKEN}' is missing"),
            ),
            Self::WrongToken => (
                StatusCode::FORBIDDEN,
                format!("{secured} Provided token in header '{TRAFFIC_TOKEN}' is invalid"),
            ),
        }
    }
}

/// Returns whether a user opened the page in a browser. An SDK inside a web page is recognised by
/// the header that names the sandbox.
fn is_browser(headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let agent = text(header::USER_AGENT);
    let looks_like_one = BROWSERS.iter().any(|name| agent.contains(name))
        || text(header::ACCEPT).contains("text/html");
    looks_like_one && !headers.contains_key(SANDBOX)
}

fn page(message: &str, sandbox: &str, port: u16) -> String {
    let sandbox = escape(sandbox);
    let message = escape(message);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{message}</title></head>\
         <body style=\"font-family: system-ui; max-width: 40rem; margin: 4rem auto\"><h1>{message}</h1>\
         <p>Sandbox <code>{sandbox}</code>, port <code>{port}</code></p></body></html>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn browser_gets_html_and_program_gets_json() {
        let kind = |headers: &[(header::HeaderName, &str)]| {
            let response = PortProblem::NotOpen.response("s1", 3000, &sent(headers));
            assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
            response.headers()[header::CONTENT_TYPE]
                .to_str()
                .unwrap()
                .split(';')
                .next()
                .unwrap()
                .to_owned()
        };
        assert_eq!(kind(&[]), "application/json");
        assert_eq!(
            kind(&[(header::USER_AGENT, "curl/8"), (header::ACCEPT, "*/*")]),
            "application/json"
        );
        assert_eq!(kind(&[(header::USER_AGENT, "Mozilla/5.0")]), "text/html");
        assert_eq!(kind(&[(header::ACCEPT, "text/html,*/*")]), "text/html");
        assert_eq!(
            kind(&[(header::USER_AGENT, "Mozilla/5.0"), (SANDBOX, "s1")]),
            "application/json"
        );
    }

    #[test]
    fn sandbox_name_is_escaped_in_html() {
        let page = page("gone", "<script>\"'&", 1);
        assert!(
            page.contains("&lt;script&gt;&quot;&#39;&amp;") && !page.contains("<script"),
            "{page}"
        );
    }
}
