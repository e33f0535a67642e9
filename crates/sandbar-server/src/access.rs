//! Who may call.

use std::{fmt, net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{Extensions, HeaderMap, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use sandbar_core::{Actor, Error, ErrorCode, Result};
use sandbar_host::acting_as;
use sandbar_proto::{API_VERSION, API_VERSION_HEADER, parse_api_version, to_connect};

/// A secret that opens the API.
#[derive(Clone)]
pub struct AccessToken(String);

impl AccessToken {
    const SHORTEST: usize = 16;

    /// Takes a token someone chose or kept.
    pub fn new(token: impl Into<String>) -> Result<Self> {
        let token = token.into();
        if token.len() < Self::SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid("token", "the access token is too short or holds spaces or odd characters")
                .with_hint(format!("use at least {} letters, digits or signs without spaces", Self::SHORTEST)));
        }
        Ok(Self(token))
    }

    /// A fresh token of 256 random bits.
    pub fn random() -> Result<Self> {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).map_err(|source| {
            Error::internal("the kernel gives no random bytes for an access token").with_source(source)
        })?;
        Ok(Self(bytes.iter().fold(String::from("sb_"), |text, byte| text + &format!("{byte:02x}"))))
    }

    /// The token itself, to be written down for clients.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// What callers are checked against. Only a hash of the token is kept, and comparing two hashes takes the same time
/// wherever they differ.
#[derive(Clone, Debug)]
pub(crate) struct Gatekeeper {
    expected: Option<Arc<blake3::Hash>>,
}

impl Gatekeeper {
    pub(crate) fn new(token: Option<&AccessToken>) -> Self {
        Self { expected: token.map(|token| Arc::new(blake3::hash(token.0.as_bytes()))) }
    }

    /// Whether everybody may do everything.
    pub(crate) fn is_open(&self) -> bool {
        self.expected.is_none()
    }

    /// Whether this is the token of this host.
    pub(crate) fn accepts(&self, token: &[u8]) -> bool {
        self.expected.as_ref().is_some_and(|expected| blake3::hash(token) == **expected)
    }

    /// Whether this is what callers of the API send as `authorization`.
    pub(crate) fn accepts_authorization(&self, value: &[u8]) -> bool {
        let presented = value.split_first_chunk::<7>();
        presented.is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case(b"Bearer ") && self.accepts(token))
    }

    /// One that knows a token nobody else does.
    pub(crate) fn for_fuzzing() -> Option<Self> {
        AccessToken::random().ok().map(|token| Self::new(Some(&token)))
    }

    /// Who calls, when they may: a name that tells tokens apart and reveals nothing of them.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<String> {
        if let Some(version) = headers.get(API_VERSION_HEADER) {
            parse_api_version(version.to_str().unwrap_or_default())?;
        }
        let Some(expected) = &self.expected else { return Ok("anonymous".into()) };
        let refuse = |message: &str| {
            Err(Error::new(ErrorCode::Unauthenticated, message).with_hint(
                "send `authorization: Bearer TOKEN`; the CLI takes it from `SANDBAR_TOKEN` or the data directory",
            ))
        };
        let Some(header) = headers.get(header::AUTHORIZATION) else {
            return refuse("the call carries no access token");
        };
        if !self.accepts_authorization(header.as_bytes()) {
            return refuse("the access token is not the one of this host");
        }
        Ok(format!("token:{}", &expected.to_hex()[..8]))
    }
}

/// Lets a call through when it may pass, and answers in its own protocol when not.
pub(crate) async fn guard(State(gatekeeper): State<Gatekeeper>, request: Request, next: Next) -> Response {
    match gatekeeper.check(request.headers()).and_then(|caller| actor(&caller, request.extensions())) {
        Ok(actor) => acting_as(actor, next.run(request)).await,
        Err(error) => {
            to_connect(&error, None).into_http_response(request.headers()).map(axum::body::Body::new).into_response()
        }
    }
}

/// The address of whoever is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// What the audit log calls a caller.
fn actor(caller: &str, extensions: &Extensions) -> Result<Actor> {
    match extensions.get::<Peer>() {
        Some(Peer(address)) => Actor::new(&format!("{caller}@{address}")),
        None => Actor::new(caller),
    }
}

/// Says with every answer which API this server speaks.
pub(crate) async fn tell_version(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Ok(version) = HeaderValue::from_str(&format!("v{API_VERSION}")) {
        response.headers_mut().insert(API_VERSION_HEADER, version);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn only_the_token_itself_opens() {
        let token = AccessToken::random().unwrap();
        let gatekeeper = Gatekeeper::new(Some(&token));
        gatekeeper.check(&headers("authorization", &format!("Bearer {}", token.reveal()))).unwrap();
        gatekeeper.check(&headers("authorization", &format!("bearer {}", token.reveal()))).unwrap();
        let other = AccessToken::random().unwrap();
        for wrong in [
            String::new(),
            "Bearer".into(),
            "Bearer ".into(),
            token.reveal().into(),
            format!("Basic {}", token.reveal()),
            format!("Bearer {} ", token.reveal()),
            format!("Bearer {}", other.reveal()),
        ] {
            let error = gatekeeper.check(&headers("authorization", &wrong)).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unauthenticated, "{wrong:?}");
        }
        assert_eq!(gatekeeper.check(&HeaderMap::new()).unwrap_err().code(), ErrorCode::Unauthenticated);
    }

    #[test]
    fn tokens_that_are_easy_to_guess_or_to_break_are_refused() {
        for bad in ["", "short", "has a space in the middle", "übermäßig-lang-aber-nicht-ascii"] {
            assert_eq!(AccessToken::new(bad).unwrap_err().field(), Some("token"), "{bad}");
        }
        let token = AccessToken::random().unwrap();
        AccessToken::new(token.reveal()).unwrap();
        assert!(!format!("{token:?}").contains(token.reveal()));
    }
}
