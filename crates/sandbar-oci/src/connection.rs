//! HTTP requests to one repository of a registry.

use std::{sync::Mutex, time::Duration};

use http::{HeaderValue, StatusCode, header};
use reqwest::{Client, Response, Url};
use sandbar_core::{Error, ErrorCode, MutexExt as _, Result};
use serde::Deserialize;

use crate::{
    Credentials, ImageReference, challenge::Challenge, credentials::secret, reference::is_loopback,
    retry::Failure,
};

const MAX_REDIRECTS: usize = 5;
const MAX_TOKEN_BYTES: u64 = 1 << 20;
/// Timeout of the TLS probe of a registry on this machine.
const TLS_PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Repository of a registry.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    origin: Url,
    registry: String,
    repository: String,
    credentials: Option<Credentials>,
    authorization: Mutex<Option<HeaderValue>>,
}

impl Connection {
    pub(crate) async fn open(
        client: Client,
        reference: &ImageReference,
        credentials: Option<Credentials>,
    ) -> Result<Self> {
        let host = reference.host();
        let origin = |scheme: &str| {
            Url::parse(&format!("{scheme}://{host}/")).map_err(|error| {
                Error::invalid("image", format!("`{host}` is not a valid registry host"))
                    .with_source(error)
            })
        };
        let secure = origin("https")?;
        let origin = if is_loopback(host) && !speaks_tls(&client, &secure).await {
            origin("http")?
        } else {
            secure
        };
        Ok(Self {
            client,
            origin,
            registry: reference.registry().to_owned(),
            repository: reference.repository().to_owned(),
            credentials,
            authorization: Mutex::new(None),
        })
    }

    /// Requests `manifests/…` or `blobs/…` of the repository, from byte `from` on. Returns only
    /// successful responses.
    pub(crate) async fn get(
        &self,
        part: &str,
        accept: &str,
        from: u64,
    ) -> Result<Response, Failure> {
        let url = self.url(&format!("v2/{}/{part}", self.repository))?;
        let mut authenticated = false;
        loop {
            let response = self.follow(url.clone(), accept, from).await?;
            if response.status() != StatusCode::UNAUTHORIZED || authenticated {
                return self.check_status(response, part);
            }
            self.authenticate(&response).await?;
            authenticated = true;
        }
    }

    fn url(&self, path: &str) -> Result<Url> {
        self.origin.join(path).map_err(|error| {
            Error::invalid("image", format!("`{path}` is not a valid URL path")).with_source(error)
        })
    }

    /// Follows redirects. Credentials are sent to the registry's origin only, not to the storage it
    /// redirects to.
    async fn follow(&self, mut url: Url, accept: &str, from: u64) -> Result<Response, Failure> {
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.client.get(url.clone()).header(header::ACCEPT, accept);
            if from > 0 {
                request = request.header(header::RANGE, format!("bytes={from}-"));
            }
            if url.origin() == self.origin.origin()
                && let Some(authorization) = self.authorization()
            {
                request = request.header(header::AUTHORIZATION, authorization);
            }
            let response = request.send().await.map_err(|error| self.broken(error))?;
            let location = response
                .headers()
                .get(header::LOCATION)
                .and_then(|location| location.to_str().ok());
            match (response.status().is_redirection(), location) {
                (true, Some(location)) => url = self.checked_redirect(&url, location)?,
                _ => return Ok(response),
            }
        }
        Err(self
            .refused(&format!("redirects more than {MAX_REDIRECTS} times"))
            .into())
    }

    /// Returns the URL of a redirect, if it is permitted.
    fn checked_redirect(&self, base: &Url, location: &str) -> Result<Url> {
        let url = base.join(location).map_err(|error| {
            self.refused("redirects to an invalid URL")
                .with_source(error)
        })?;
        let host = url.host_str().unwrap_or_default();
        // Plain HTTP is permitted only from a loopback registry to a loopback address.
        let plain = url.scheme() == "http" && self.origin.scheme() == "http" && is_loopback(host);
        if url.scheme() == "https" || plain {
            return Ok(url);
        }
        Err(self.refused(&format!(
            "redirects to `{}://{host}`, which is not safe: only HTTPS is permitted",
            url.scheme()
        )))
    }

    /// Authenticates according to the challenge of a response.
    async fn authenticate(&self, response: &Response) -> Result<(), Failure> {
        let said = response.headers().get_all(header::WWW_AUTHENTICATE);
        let challenge = said
            .iter()
            .filter_map(|value| value.to_str().ok())
            .find_map(Challenge::parse);
        let authorization = match (challenge, &self.credentials) {
            (Some(Challenge::Basic), Some(credentials)) => credentials.basic()?,
            (
                Some(Challenge::Bearer {
                    realm,
                    service,
                    scope,
                }),
                _,
            ) => self.token(&realm, service, scope).await?,
            _ => return Err(self.access_denied().into()),
        };
        *self.authorization.lock_unpoisoned() = Some(authorization);
        Ok(())
    }

    /// Requests a token from the token server of the registry.
    async fn token(
        &self,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
    ) -> Result<HeaderValue, Failure> {
        let mut url = self.checked_redirect(&self.origin, realm)?;
        let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.repository));
        if let Some(service) = &service {
            url.query_pairs_mut().append_pair("service", service);
        }
        url.query_pairs_mut().append_pair("scope", &scope);
        let mut request = self
            .client
            .get(url)
            .header(header::ACCEPT, "application/json");
        if let Some(credentials) = &self.credentials {
            request = request.header(header::AUTHORIZATION, credentials.basic()?);
        }
        let response = request.send().await.map_err(|error| self.broken(error))?;
        let status = response.status();
        if matches!(status.as_u16(), 400 | 401 | 403 | 404) {
            return Err(self.access_denied().into());
        }
        let response = self.check_status(response, "token")?;
        let bytes = self.bounded(response, MAX_TOKEN_BYTES, "token").await?;
        let answer: TokenAnswer = serde_json::from_slice(&bytes).map_err(|error| {
            self.refused("returned a malformed token response")
                .with_source(error)
        })?;
        match answer
            .token
            .or(answer.access_token)
            .filter(|token| !token.is_empty())
        {
            Some(token) => Ok(secret(&format!("Bearer {token}"))?),
            None => Err(self.refused("returned no token").into()),
        }
    }

    /// Returns a successful response, or the failure its status stands for.
    #[expect(
        clippy::result_large_err,
        reason = "a failure is built once per failed request"
    )]
    fn check_status(&self, response: Response, part: &str) -> Result<Response, Failure> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let registry = &self.registry;
        Err(match status {
            StatusCode::NOT_FOUND => Failure::Permanent(Error::invalid(
                "image",
                format!(
                    "registry `{registry}` has no `{}` ({part})",
                    self.repository
                ),
            )),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Failure::Permanent(self.access_denied())
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Failure::Transient(
                self.unavailable(&format!("answered {status}")),
                retry_after(&response),
            ),
            status if status.is_server_error() => Failure::Transient(
                self.unavailable(&format!("answered {status}")),
                retry_after(&response),
            ),
            // The range is beyond the end of the blob: discard the partial download.
            StatusCode::RANGE_NOT_SATISFIABLE => Failure::Transient(
                self.refused(&format!("cannot resume {part}")),
                Some(Duration::ZERO),
            ),
            status => Failure::Permanent(self.refused(&format!("answered {status} to {part}"))),
        })
    }

    /// Reads the whole body of a response, up to a limit.
    pub(crate) async fn bounded(
        &self,
        mut response: Response,
        limit: u64,
        part: &str,
    ) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(error))? {
            if (bytes.len() + chunk.len()) as u64 > limit {
                return Err(self
                    .refused(&format!("sends more than {limit} bytes as {part}"))
                    .into());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn authorization(&self) -> Option<HeaderValue> {
        self.authorization.lock_unpoisoned().clone()
    }

    /// Converts a failed connection.
    pub(crate) fn broken(&self, error: reqwest::Error) -> Failure {
        // The URL may contain a signature: keep it out of messages.
        Failure::Transient(
            self.unavailable("cannot be reached")
                .with_source(error.without_url()),
            None,
        )
    }

    fn unavailable(&self, what: &str) -> Error {
        Error::new(ErrorCode::Unavailable, format!("registry `{}` {what}", self.registry))
            .with_field("image")
            .with_hint("try again later, or import an image from a file: `skopeo copy docker://NAME oci:image`")
    }

    pub(crate) fn refused(&self, what: &str) -> Error {
        Error::invalid("image", format!("registry `{}` {what}", self.registry))
    }

    /// Error for 401 and 403. Registries do not distinguish missing images from inaccessible ones.
    fn access_denied(&self) -> Error {
        let message = format!(
            "registry `{}` denied access to `{}`",
            self.registry, self.repository
        );
        let hint = if self.credentials.is_some() {
            "check the image name and the credentials"
        } else {
            "check the image name; a private image needs credentials: `sandbar base login`"
        };
        Error::invalid("image", message).with_hint(hint)
    }
}

/// Fields of a token response.
#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

/// Returns whether a registry on this machine speaks TLS. Its certificate is checked later.
async fn speaks_tls(client: &Client, origin: &Url) -> bool {
    client
        .get(origin.clone())
        .timeout(TLS_PROBE_TIMEOUT)
        .send()
        .await
        .is_ok()
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response
        .headers()
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}
