//! What is answered in the place of a port that cannot be reached. Clients look for these texts.

use axum::{body::Body, response::IntoResponse as _};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::{cors, json::Json, place::SANDBOX, ports::TRAFFIC_TOKEN};

/// What browsers, and nobody else, call themselves.
const BROWSERS: [&str; 7] = ["mozilla", "chrome", "safari", "firefox", "edge", "opera", "msie"];

/// Why a port cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProblem {
    /// There is no such sandbox, or it does not run.
    NotFound,
    /// Nothing listens there, or not for long.
    NotOpen,
    /// A token is needed, and none was shown.
    NoToken,
    WrongToken,
}

impl PortProblem {
    /// The answer for one who sent these headers.
    pub fn answer(self, sandbox: &str, port: u16, headers: &HeaderMap) -> Response<Body> {
        let (status, message) = self.told();
        let mut answer = if is_browser(headers) {
            let body = page(&message, sandbox, port);
            (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], body).into_response()
        } else {
            let mut body = json!({ "sandboxId": sandbox, "message": message, "code": status.as_u16() });
            if self == Self::NotOpen {
                body["port"] = port.into();
            }
            let mut answer = (status, Json(body)).into_response();
            let kind = HeaderValue::from_static("application/json; charset=utf-8");
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
            answer
        };
        cors::allow(answer.headers_mut());
        answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }

    fn told(self) -> (StatusCode, String) {
        let secured = "Sandbox is secured with traffic access token.";
        match self {
            Self::NotFound => (StatusCode::BAD_GATEWAY, "The sandbox was not found".to_owned()),
            Self::NotOpen => (StatusCode::BAD_GATEWAY, "The sandbox is running but port is not open".to_owned()),
            Self::NoToken => (StatusCode::FORBIDDEN, format!("{secured} Token header '{TRAFFIC_TOKEN}' is missing")),
            Self::WrongToken => {
                (StatusCode::FORBIDDEN, format!("{secured} Provided token in header '{TRAFFIC_TOKEN}' is invalid"))
            }
        }
    }
}

/// Whether a person looks at the answer. An SDK that runs in a page names the sandbox by a header.
fn is_browser(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    let agent = text(header::USER_AGENT);
    let looks_like_one = BROWSERS.iter().any(|name| agent.contains(name)) || text(header::ACCEPT).contains("text/html");
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
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn people_get_a_page_and_programs_get_json() {
        let kind = |headers: &[(header::HeaderName, &str)]| {
            let answer = PortProblem::NotOpen.answer("s1", 3000, &sent(headers));
            assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
            answer.headers()[header::CONTENT_TYPE].to_str().unwrap().split(';').next().unwrap().to_owned()
        };
        assert_eq!(kind(&[]), "application/json");
        assert_eq!(kind(&[(header::USER_AGENT, "curl/8"), (header::ACCEPT, "*/*")]), "application/json");
        assert_eq!(kind(&[(header::USER_AGENT, "Mozilla/5.0")]), "text/html");
        assert_eq!(kind(&[(header::ACCEPT, "text/html,*/*")]), "text/html");
        assert_eq!(kind(&[(header::USER_AGENT, "Mozilla/5.0"), (SANDBOX, "s1")]), "application/json");
    }

    #[test]
    fn whatever_a_sandbox_is_called_a_page_stays_a_page() {
        let page = page("gone", "<script>\"'&", 1);
        assert!(page.contains("&lt;script&gt;&quot;&#39;&amp;") && !page.contains("<script"), "{page}");
    }
}
