//! Where packs are kept.

use std::{fmt, fs::DirBuilder, os::unix::fs::DirBuilderExt as _, path::PathBuf, sync::Arc};

use object_store::{
    ObjectStore,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
};
use sandbar_core::{Error, Result};

/// An object store.
#[derive(Clone, Debug)]
pub enum Target {
    /// A directory, made for its owner alone when it is missing.
    Directory(PathBuf),
    S3(S3Target),
}

/// A bucket at Amazon or at any service that speaks the same protocol. What is left out comes from the environment
/// (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, a profile of the instance).
#[derive(Clone, Default)]
pub struct S3Target {
    pub bucket: String,
    pub region: Option<String>,
    /// Of another service than Amazon's. Requests name the bucket in the path then.
    pub endpoint: Option<String>,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<String>,
    /// Talk to an `http://` endpoint. Keys are signed and not sent, but content is readable on the way.
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

impl Target {
    pub(super) fn open(&self) -> Result<Arc<dyn ObjectStore>> {
        match self {
            Self::Directory(directory) => {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(directory)
                    .map_err(|error| Error::io(format!("make directory `{}`", directory.display()), error))?;
                let store = LocalFileSystem::new_with_prefix(directory).map_err(|error| refused(self, error))?;
                // A pack may be all that is left of a volume: it is on the disk before anybody is told that it is there.
                Ok(Arc::new(store.with_automatic_cleanup(true).with_fsync(true)))
            }
            Self::S3(s3) => Ok(Arc::new(s3.builder().build().map_err(|error| refused(self, error))?)),
        }
    }
}

impl S3Target {
    fn builder(&self) -> AmazonS3Builder {
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(&self.bucket).with_allow_http(self.allow_http);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint).with_virtual_hosted_style_request(false);
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

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => write!(f, "directory `{}`", directory.display()),
            Self::S3(s3) => write!(f, "bucket `{}`", s3.bucket),
        }
    }
}

fn refused(target: &Target, error: object_store::Error) -> Error {
    Error::invalid("target", format!("{target} cannot be used")).with_source(error)
}
