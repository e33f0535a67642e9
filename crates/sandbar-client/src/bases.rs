//! Base calls.

use std::fmt;

use sandbar_core::{BaseInfo, BaseName, Result, SaveBase, SessionId};
use sandbar_proto::v1::{self, import_base_response::Event};

use crate::{Client, client::required};

/// Progress of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    pub entries: u64,
    pub bytes: u64,
    /// Total bytes to download, while an image is pulled.
    pub total: Option<u64>,
}

/// Credentials for an image registry.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryCredentials {
    pub username: String,
    /// Password or token.
    pub password: String,
}

impl fmt::Debug for RegistryCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryCredentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Lists the bases, ordered by name.
    pub async fn list_bases(&self) -> Result<Vec<BaseInfo>> {
        let answer = self
            .repeat(|| self.rpc.list_bases(v1::ListBasesRequest::default()))
            .await?
            .into_owned();
        answer.bases.into_iter().map(TryInto::try_into).collect()
    }

    /// Imports a base from `source`: `host`, or a path on the host's disk. The host completes the
    /// import also when the future is dropped.
    pub async fn import_base(
        &self,
        name: &BaseName,
        source: &str,
        progress: impl FnMut(ImportProgress) + Send,
    ) -> Result<BaseInfo> {
        let request = v1::ImportBaseRequest {
            name: name.as_str().to_owned(),
            source: source.to_owned(),
            ..Default::default()
        };
        self.make_base(request, progress).await
    }

    /// Imports a base from an image that the host pulls from a registry.
    pub async fn import_image(
        &self,
        name: &BaseName,
        image: &str,
        credentials: Option<RegistryCredentials>,
        progress: impl FnMut(ImportProgress) + Send,
    ) -> Result<BaseInfo> {
        let credentials =
            credentials.map(
                |RegistryCredentials { username, password }| v1::RegistryCredentials {
                    username,
                    password,
                    ..Default::default()
                },
            );
        let request = v1::ImportBaseRequest {
            name: name.as_str().to_owned(),
            image: image.to_owned(),
            credentials: credentials.into(),
            ..Default::default()
        };
        self.make_base(request, progress).await
    }

    async fn make_base(
        &self,
        request: v1::ImportBaseRequest,
        mut progress: impl FnMut(ImportProgress) + Send,
    ) -> Result<BaseInfo> {
        let mut stream = self.once(self.rpc.import_base(request)).await?;
        let mut base = None;
        while let Some(message) = self.once(stream.message()).await? {
            match message.to_owned_message().event {
                Some(Event::Progress(so_far)) => {
                    progress(ImportProgress {
                        entries: so_far.entries,
                        bytes: so_far.bytes,
                        total: so_far.total,
                    });
                }
                Some(Event::Base(finished)) => base = Some(*finished),
                None => {}
            }
        }
        required("base", base)
    }

    /// Saves a session as a base, independent of the session afterwards.
    pub async fn save_base(&self, id: &SessionId, request: SaveBase) -> Result<BaseInfo> {
        let answer = self
            .once(self.rpc.save_base(v1::SaveBaseRequest::new(id, request)))
            .await?
            .into_owned();
        required("base", answer.base.into_option())
    }

    pub async fn delete_base(&self, name: &BaseName) -> Result<()> {
        let request = v1::DeleteBaseRequest {
            name: name.as_str().to_owned(),
            ..Default::default()
        };
        self.once(self.rpc.delete_base(request)).await.map(drop)
    }
}
