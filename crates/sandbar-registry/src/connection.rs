//! Asking one registry for parts of one image.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::{HeaderValue, StatusCode, header};
use reqwest::{Client, Response, Url};
use sandbar_core::{Error, ErrorCode, Result};
use serde::Deserialize;

use crate::{
    Credentials, ImageReference, challenge::Challenge, credentials::secret, patience::Failure, reference::is_loopback,
};

const MOST_REDIRECTS: usize = 5;
const LARGEST_TOKEN: u64 = 1 << 20;
/// How long a registry on this machine may take to show that it speaks TLS.
const LONGEST_PROBE: Duration = Duration::from_secs(5);

/// A registry, and one repository in it.
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
            Url::parse(&format!("{scheme}://{host}/"))
                .map_err(|error| Error::invalid("image", format!("`{host}` is no registry")).with_source(error))
        };
        let secure = origin("https")?;
        let origin = if is_loopback(host) && !speaks_tls(&client, &secure).await { origin("http")? } else { secure };
        Ok(Self {
            client,
            origin,
            registry: reference.registry().to_owned(),
            repository: reference.repository().to_owned(),
            credentials,
            authorization: Mutex::new(None),
        })
    }

    /// Asks for `manifests/…` or `blobs/…` of the repository, from byte `from` on. The answer is a success.
    pub(crate) async fn get(&self, part: &str, accept: &str, from: u64) -> Result<Response, Failure> {
        let url = self.url(&format!("v2/{}/{part}", self.repository))?;
        let mut introduced = false;
        loop {
            let response = self.follow(url.clone(), accept, from).await?;
            if response.status() != StatusCode::UNAUTHORIZED || introduced {
                return self.judge(response, part);
            }
            self.introduce(&response).await?;
            introduced = true;
        }
    }

    fn url(&self, path: &str) -> Result<Url> {
        self.origin
            .join(path)
            .map_err(|error| Error::invalid("image", format!("`{path}` is no address")).with_source(error))
    }

    /// Follows redirects. Who we are is for the registry alone, not for whoever keeps its parts.
    async fn follow(&self, mut url: Url, accept: &str, from: u64) -> Result<Response, Failure> {
        for _ in 0..=MOST_REDIRECTS {
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
            let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
            match (response.status().is_redirection(), location) {
                (true, Some(location)) => url = self.permitted(&url, location)?,
                _ => return Ok(response),
            }
        }
        Err(self.refused(&format!("redirects more than {MOST_REDIRECTS} times")).into())
    }

    /// An address a registry sends us to, if we may go there.
    fn permitted(&self, base: &Url, location: &str) -> Result<Url> {
        let url = base.join(location).map_err(|error| self.refused("redirects to nowhere").with_source(error))?;
        let host = url.host_str().unwrap_or_default();
        // One that speaks plain HTTP is on this machine, and so is what it may send us to.
        let plain = url.scheme() == "http" && self.origin.scheme() == "http" && is_loopback(host);
        if url.scheme() == "https" || plain {
            return Ok(url);
        }
        Err(self.refused(&format!("sends us to `{}://{host}`, which is not safe", url.scheme())))
    }

    /// Answers a challenge.
    async fn introduce(&self, response: &Response) -> Result<(), Failure> {
        let said = response.headers().get_all(header::WWW_AUTHENTICATE);
        let challenge = said.iter().filter_map(|value| value.to_str().ok()).find_map(Challenge::parse);
        let authorization = match (challenge, &self.credentials) {
            (Some(Challenge::Basic), Some(credentials)) => credentials.basic()?,
            (Some(Challenge::Bearer { realm, service, scope }), _) => self.token(&realm, service, scope).await?,
            _ => return Err(self.unknown_here().into()),
        };
        *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = Some(authorization);
        Ok(())
    }

    /// A token from whoever gives them out for this registry.
    async fn token(&self, realm: &str, service: Option<String>, scope: Option<String>) -> Result<HeaderValue, Failure> {
        let mut url = self.permitted(&self.origin, realm)?;
        let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.repository));
        if let Some(service) = &service {
            url.query_pairs_mut().append_pair("service", service);
        }
        url.query_pairs_mut().append_pair("scope", &scope);
        let mut request = self.client.get(url).header(header::ACCEPT, "application/json");
        if let Some(credentials) = &self.credentials {
            request = request.header(header::AUTHORIZATION, credentials.basic()?);
        }
        let response = request.send().await.map_err(|error| self.broken(error))?;
        let status = response.status();
        if matches!(status.as_u16(), 400 | 401 | 403 | 404) {
            return Err(self.unknown_here().into());
        }
        let response = self.judge(response, "token")?;
        let bytes = self.bounded(response, LARGEST_TOKEN, "token").await?;
        let answer: TokenAnswer = serde_json::from_slice(&bytes)
            .map_err(|error| self.refused("gives out a token nobody can read").with_source(error))?;
        match answer.token.or(answer.access_token).filter(|token| !token.is_empty()) {
            Some(token) => Ok(secret(&format!("Bearer {token}"))?),
            None => Err(self.refused("gives out no token").into()),
        }
    }

    /// The answer, if it is one.
    fn judge(&self, response: Response, part: &str) -> Result<Response, Failure> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let registry = &self.registry;
        Err(match status {
            StatusCode::NOT_FOUND => Failure::Final(Error::invalid(
                "image",
                format!("registry `{registry}` has no `{}` ({part})", self.repository),
            )),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failure::Final(self.unknown_here()),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                Failure::Passing(self.unavailable(&format!("answered {status}")), retry_after(&response))
            }
            status if status.is_server_error() => {
                Failure::Passing(self.unavailable(&format!("answered {status}")), retry_after(&response))
            }
            // The range is beyond what the registry has: what was fetched before is of no use.
            StatusCode::RANGE_NOT_SATISFIABLE => {
                Failure::Passing(self.refused(&format!("does not have the rest of {part}")), Some(Duration::ZERO))
            }
            status => Failure::Final(self.refused(&format!("answered {status} to {part}"))),
        })
    }

    /// A whole answer that is small.
    pub(crate) async fn bounded(&self, mut response: Response, limit: u64, part: &str) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(error))? {
            if (bytes.len() + chunk.len()) as u64 > limit {
                return Err(self.refused(&format!("sends more than {limit} bytes as {part}")).into());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn authorization(&self) -> Option<HeaderValue> {
        self.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A connection that broke, or never was.
    pub(crate) fn broken(&self, error: reqwest::Error) -> Failure {
        // The address is the registry's, and may carry a signature.
        Failure::Passing(self.unavailable("cannot be reached").with_source(error.without_url()), None)
    }

    fn unavailable(&self, what: &str) -> Error {
        Error::new(ErrorCode::Unavailable, format!("registry `{}` {what}", self.registry))
            .with_field("image")
            .with_hint("try again later, or import an image from a file: `skopeo copy docker://NAME oci:image`")
    }

    pub(crate) fn refused(&self, what: &str) -> Error {
        Error::invalid("image", format!("registry `{}` {what}", self.registry))
    }

    /// Registries say the same of what is not there and of what we may not see.
    fn unknown_here(&self) -> Error {
        let message = format!("registry `{}` does not show `{}` to us", self.registry, self.repository);
        let hint = if self.credentials.is_some() {
            "check the name of the image, and the credentials"
        } else {
            "check the name of the image; one that is not public needs credentials: `sandbar base login`"
        };
        Error::invalid("image", message).with_hint(hint)
    }
}

/// What is wanted of an answer with a token.
#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

/// Whether a registry of this machine's own speaks TLS; whom it proves to be matters later.
async fn speaks_tls(client: &Client, origin: &Url) -> bool {
    client.get(origin.clone()).timeout(LONGEST_PROBE).send().await.is_ok()
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
