//! Object stores of packs.

use std::{env, fmt, panic::AssertUnwindSafe, path::PathBuf, sync::Arc};

use object_store::{
    ClientOptions, ObjectStore,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    client::{DnsFuture, DnsResolver},
};
use sandbar_core::{Error, Result};
use sandbar_resolver::Resolver;

/// Object store.
#[derive(Clone, Debug)]
pub enum Target {
    /// Directory, created with mode 0700 when missing.
    Directory(PathBuf),
    S3(S3Target),
}

/// S3 bucket at Amazon or a compatible service. Missing settings come from the environment
/// (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, an instance profile).
#[derive(Clone, Default)]
pub struct S3Target {
    pub bucket: String,
    pub region: Option<String>,
    /// Endpoint of a service other than Amazon's. Requests then use path-style bucket names.
    pub endpoint: Option<String>,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<String>,
    /// Allows an `http://` endpoint. Requests are signed, so keys are not sent, but content is not
    /// encrypted.
    pub allow_http: bool,
}

impl fmt::Debug for S3Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Target")
            .field("bucket", &self.bucket)
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl S3Target {
    pub(super) fn open(&self) -> Result<Arc<dyn ObjectStore>> {
        let store = self.builder().build().map_err(|error| {
            let message = format!("bucket `{}` cannot be used", self.bucket);
            Error::invalid("target", message).with_source(error)
        })?;
        Ok(Arc::new(store))
    }

    fn builder(&self) -> AmazonS3Builder {
        let mut builder = from_environment()
            .with_bucket_name(&self.bucket)
            .with_allow_http(self.allow_http);
        if let Some(endpoint) = &self.endpoint {
            builder = builder
                .with_endpoint(endpoint)
                .with_virtual_hosted_style_request(false);
        }
        let settings = [
            (AmazonS3ConfigKey::Region, &self.region),
            (AmazonS3ConfigKey::AccessKeyId, &self.access_key_id),
            (AmazonS3ConfigKey::SecretAccessKey, &self.secret_access_key),
        ];
        for (key, value) in settings {
            if let Some(value) = value {
                builder = builder.with_config(key, value);
            }
        }
        builder
    }
}

/// Like [`AmazonS3Builder::from_env`], with our name resolution, which cannot be added to its
/// result without losing the settings of its HTTP client.
fn from_environment() -> AmazonS3Builder {
    let names = Names(Arc::new(AssertUnwindSafe(Resolver::system())));
    let options = ClientOptions::new().with_dns_resolver(Arc::new(names));
    let mut builder = AmazonS3Builder::new().with_client_options(options);
    for (key, value) in env::vars_os() {
        if let (Some(key), Some(value)) = (key.to_str(), value.to_str())
            && key.starts_with("AWS_")
            && let Ok(key) = key.to_ascii_lowercase().parse()
        {
            builder = builder.with_config(key, value);
        }
    }
    builder
}

/// Name resolution of the store's HTTP client, which otherwise uses `getaddrinfo`.
#[derive(Debug)]
struct Names(Arc<AssertUnwindSafe<Resolver>>);

impl DnsResolver for Names {
    fn resolve(&self, host: &str) -> DnsFuture {
        let resolver = Arc::clone(&self.0);
        let host = host.to_owned();
        Box::pin(async move { Ok(resolver.addresses_of(&host).await?) })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => write!(f, "directory `{}`", directory.display()),
            Self::S3(s3) => write!(f, "bucket `{}`", s3.bucket),
        }
    }
}
