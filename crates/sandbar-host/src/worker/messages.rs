//! Messages between the host and a worker process. Both ends are the same binary, so the format has
//! no version.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use sandbar_core::{
    Aspect, Aspects, ByteCount, Change, ChangeKind, EntryType, Error, ErrorCode, FileDetails,
    FileStat, LinkEnd, Result, ToolResponse, ToolTier,
};
use sandbar_storage::{TreeView, ViewLayer};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Path on the wire: a file name is any bytes.
type PathBytes = Vec<u8>;

/// Request of a job. All but `Diff` work on a session's tree, whose root is the job's directory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Run a tool. `params` is a JSON object.
    Tool {
        tool: String,
        params: String,
        time_limit: Duration,
    },
    /// List a directory, with attributes and link targets if `details`.
    List {
        path: PathBytes,
        depth: u32,
        contents: ListContents,
    },
    /// Archive a path. The parts of the answer are the bytes of a tar stream.
    Export { path: PathBytes },
    /// Compare two views.
    Diff { from: View, to: View },
}

/// Contents of a listing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum ListContents {
    Stat,
    Details,
}

/// Request with the part of the tree's description that is not a descriptor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Envelope {
    /// First id of the owner map, whose namespace is the job's first other descriptor.
    pub(super) owners: Option<u32>,
    pub(super) request: Request,
}

/// Part of an answer, except to `Export`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Part {
    Progress(String),
    Stats(Vec<WireStat>),
    Details(Vec<WireDetails>),
    Changes(Vec<WireChange>),
}

/// End of an answer.
pub(super) type End = Result<Option<WireResponse>, WireError>;

pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(message)
        .map_err(|error| Error::internal("could not encode a message").with_source(error))
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes)
        .map_err(|error| Error::internal("worker sent a malformed message").with_source(error))
}

pub(crate) fn path_bytes(path: &Path) -> PathBytes {
    path.as_os_str().as_bytes().to_vec()
}

pub(super) fn path_of(bytes: PathBytes) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireError {
    code: String,
    message: String,
    field: Option<String>,
    hint: Option<String>,
}

impl From<&Error> for WireError {
    fn from(error: &Error) -> Self {
        Self {
            code: error.code().as_str().to_owned(),
            message: error.chain(),
            field: error.field().map(str::to_owned),
            hint: error.hint().map(str::to_owned),
        }
    }
}

impl From<WireError> for Error {
    fn from(wire: WireError) -> Self {
        let code = ErrorCode::from_name(&wire.code).unwrap_or(ErrorCode::Internal);
        let error = Error::new(code, wire.message);
        let error = match wire.field {
            Some(field) => error.with_field(field),
            None => error,
        };
        match wire.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

/// Response of a walking tool: text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireResponse {
    content: String,
    tier: u32,
    flags: [bool; 4],
}

impl From<ToolResponse> for WireResponse {
    fn from(response: ToolResponse) -> Self {
        Self {
            content: response.content,
            tier: response.tier.number(),
            flags: [
                response.is_error,
                response.timed_out,
                response.oom_killed,
                response.truncated,
            ],
        }
    }
}

impl WireResponse {
    pub(super) fn into_response(self, duration: Duration) -> ToolResponse {
        let [is_error, timed_out, oom_killed, truncated] = self.flags;
        ToolResponse {
            content: self.content,
            content_blocks: Vec::new(),
            exit_code: None,
            snapshot_id: None,
            duration,
            tier: ToolTier::from_number(self.tier).unwrap_or(ToolTier::Host),
            is_error,
            timed_out,
            oom_killed,
            truncated,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireStat {
    path: PathBytes,
    entry: EntryType,
    size: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    modified: (i64, i32),
    symlink_target: Option<PathBytes>,
}

impl From<FileStat> for WireStat {
    fn from(stat: FileStat) -> Self {
        Self {
            path: stat.path.into_os_string().into_vec(),
            entry: stat.entry,
            size: stat.size.get(),
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            modified: (stat.modified.as_second(), stat.modified.subsec_nanosecond()),
            symlink_target: stat
                .symlink_target
                .map(|target| target.into_os_string().into_vec()),
        }
    }
}

impl From<WireStat> for FileStat {
    fn from(wire: WireStat) -> Self {
        let (seconds, nanoseconds) = wire.modified;
        Self {
            path: path_of(wire.path),
            entry: wire.entry,
            size: ByteCount(wire.size),
            mode: wire.mode,
            uid: wire.uid,
            gid: wire.gid,
            modified: Timestamp::new(seconds, nanoseconds).unwrap_or_default(),
            symlink_target: wire.symlink_target.map(path_of),
        }
    }
}

impl WireStat {
    pub(super) fn bytes(&self) -> usize {
        self.path.len() + self.symlink_target.as_ref().map_or(0, Vec::len)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireDetails {
    stat: WireStat,
    link_end: Option<(PathBytes, EntryType, u32)>,
    attributes: BTreeMap<String, Vec<u8>>,
}

impl From<FileDetails> for WireDetails {
    fn from(details: FileDetails) -> Self {
        Self {
            stat: details.stat.into(),
            link_end: details
                .link_end
                .map(|end| (path_bytes(&end.path), end.entry, end.mode)),
            attributes: details.attributes,
        }
    }
}

impl From<WireDetails> for FileDetails {
    fn from(wire: WireDetails) -> Self {
        Self {
            stat: wire.stat.into(),
            link_end: wire.link_end.map(|(path, entry, mode)| LinkEnd {
                path: path_of(path),
                entry,
                mode,
            }),
            attributes: wire.attributes,
        }
    }
}

impl WireDetails {
    pub(super) fn bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes: usize = attributes
            .map(|(name, value)| name.len() + value.len())
            .sum();
        self.stat.bytes() + attributes
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireChange {
    path: PathBytes,
    kind: ChangeKind,
    entry: EntryType,
    aspects: Vec<Aspect>,
    size: u64,
}

impl From<Change> for WireChange {
    fn from(change: Change) -> Self {
        Self {
            path: change.path.into_os_string().into_vec(),
            kind: change.kind,
            entry: change.entry,
            aspects: change.aspects.iter().collect(),
            size: change.size,
        }
    }
}

impl From<WireChange> for Change {
    fn from(wire: WireChange) -> Self {
        Self {
            path: path_of(wire.path),
            kind: wire.kind,
            entry: wire.entry,
            aspects: wire.aspects.into_iter().fold(Aspects::NONE, Aspects::with),
            size: wire.size,
        }
    }
}

impl WireChange {
    pub(super) fn bytes(&self) -> usize {
        self.path.len()
    }
}

/// [`TreeView`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct View {
    layers: Vec<WireLayer>,
    frozen_at: Option<SystemTime>,
    stable_inodes: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireLayer {
    mount_point: PathBytes,
    lower: Option<PathBytes>,
    upper: Option<PathBytes>,
}

impl From<&TreeView> for View {
    fn from(view: &TreeView) -> Self {
        let layer = |layer: &ViewLayer| WireLayer {
            mount_point: path_bytes(&layer.mount_point),
            lower: layer.lower.as_deref().map(path_bytes),
            upper: layer.upper.as_deref().map(path_bytes),
        };
        Self {
            layers: view.layers.iter().map(layer).collect(),
            frozen_at: view.frozen_at,
            stable_inodes: view.stable_inodes,
        }
    }
}

impl From<View> for TreeView {
    fn from(wire: View) -> Self {
        let layer = |layer: WireLayer| ViewLayer {
            mount_point: path_of(layer.mount_point),
            lower: layer.lower.map(path_of),
            upper: layer.upper.map(path_of),
        };
        Self {
            layers: wire.layers.into_iter().map(layer).collect(),
            frozen_at: wire.frozen_at,
            stable_inodes: wire.stable_inodes,
        }
    }
}

impl View {
    /// Returns the directories on disk that the view is read from.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.layers
            .iter()
            .flat_map(|layer| [&layer.lower, &layer.upper])
            .flatten()
            .map(|path| Path::new(OsStr::from_bytes(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survives<T, W>(value: &T)
    where
        T: Clone + PartialEq + std::fmt::Debug + From<W>,
        W: From<T> + Serialize + DeserializeOwned,
    {
        let wire: W = value.clone().into();
        let decoded: W = decode(&encode(&wire).unwrap()).unwrap();
        assert_eq!(T::from(decoded), *value);
    }

    #[test]
    fn entries_with_any_name_survive_a_round_trip() {
        let odd = path_of(b"/workspace/\xff\n\x1b[31m".to_vec());
        let stat = FileStat {
            path: odd.clone(),
            entry: EntryType::Symlink,
            size: ByteCount(7),
            mode: 0o4755,
            uid: 1000,
            gid: 65_534,
            modified: Timestamp::new(-5, -300_000_000).unwrap(),
            symlink_target: Some(odd.clone()),
        };
        survives::<_, WireStat>(&stat);
        survives::<_, WireStat>(&FileStat {
            modified: Timestamp::MAX,
            ..stat.clone()
        });
        survives::<_, WireDetails>(&FileDetails {
            stat,
            link_end: Some(LinkEnd {
                path: odd.clone(),
                entry: EntryType::Directory,
                mode: 0o755,
            }),
            attributes: [("user.x".to_owned(), vec![0, 255])].into(),
        });
        survives::<_, WireChange>(&Change {
            path: odd,
            kind: ChangeKind::Modified,
            entry: EntryType::File,
            aspects: Aspects::NONE.with(Aspect::Content).with(Aspect::Owner),
            size: u64::MAX,
        });
    }

    #[test]
    fn error_keeps_its_code_field_and_hint() {
        let error = Error::invalid("depth", "too deep").with_hint("use less");
        let wire: WireError = decode(&encode(&WireError::from(&error)).unwrap()).unwrap();
        let error = Error::from(wire);
        assert_eq!(
            (error.code(), error.field(), error.hint(), error.message()),
            (
                ErrorCode::InvalidArgument,
                Some("depth"),
                Some("use less"),
                "too deep"
            )
        );
    }
}
