//! Names and mount points of datasets.

use std::path::PathBuf;

use sandbar_core::{BaseName, Error, ErrorCode, Result, SessionId};

use super::{
    command::{Fault, Tools},
    mount_table::MountTable,
};
use crate::{ZfsConfig, private_directory::remove_other_access, world_readable::empty_directory};

/// Tag of the snapshot that volumes of a base are cloned from.
pub(super) const READY: &str = "ready";

/// Longest name of a dataset or snapshot that all ZFS versions accept.
const MAX_NAME_BYTES: usize = 255;

/// Datasets and directories of a store.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) pool: String,
    pub(super) bases: String,
    pub(super) sessions: String,
    pub(super) bases_directory: PathBuf,
    pub(super) sessions_directory: PathBuf,
    /// Empty directory.
    pub(super) empty: PathBuf,
}

/// Role of a dataset below the sessions dataset, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Generation(u64),
    View,
    Receiving,
}

impl Layout {
    /// Creates the two datasets when missing, mounts them, and takes the lock.
    pub(super) fn prepare(tools: &Tools, config: &ZfsConfig) -> Result<Self> {
        let pool = config.pool.as_str();
        check_name("pool_name", pool)?;
        match tools.zpool(&["list", "-H", "-o", "health", pool]) {
            Ok(_) => {}
            Err(failure) if failure.fault == Fault::Missing => {
                return Err(Error::new(
                    ErrorCode::Unavailable,
                    format!("pool `{pool}` does not exist or is not imported"),
                )
                .with_field("pool_name")
                .with_hint(format!(
                    "run `zpool import {pool}`, or create it with `zpool create {pool} DEVICE`"
                )));
            }
            Err(failure) => return Err(failure.into_error(format!("open pool `{pool}`"))),
        }
        let named = |given: &Option<String>, field, part: &str| -> Result<String> {
            let Some(given) = given else {
                return Ok(format!("{pool}/{part}"));
            };
            check_name(field, given)?;
            if !given
                .strip_prefix(pool)
                .is_some_and(|rest| rest.starts_with('/'))
            {
                return Err(Error::invalid(
                    field,
                    format!("dataset `{given}` is not in pool `{pool}`"),
                )
                .with_hint(format!("use the full name, for example `{pool}/{part}`")));
            }
            Ok(given.clone())
        };
        let bases = named(&config.bases_dataset, "bases_dataset", "bases")?;
        let sessions = named(&config.sessions_dataset, "sessions_dataset", "sessions")?;
        let sessions_directory = root_directory(tools, &sessions)?;
        // From here on, no command of an earlier host is running.
        tools.pool_lock.take(&sessions_directory)?;
        let bases_directory = root_directory(tools, &bases)?;
        let empty = empty_directory(&sessions_directory)?;
        Ok(Self {
            pool: pool.to_owned(),
            bases,
            sessions,
            bases_directory,
            sessions_directory,
            empty,
        })
    }

    pub(super) fn base(&self, name: &BaseName) -> String {
        format!("{}/{name}", self.bases)
    }

    pub(super) fn ready(&self, name: &BaseName) -> String {
        format!("{}@{READY}", self.base(name))
    }

    pub(super) fn base_directory(&self, name: &BaseName) -> PathBuf {
        self.bases_directory.join(name)
    }

    /// Returns a dataset name of a volume, with room for a snapshot tag.
    pub(super) fn session(&self, volume: &SessionId, suffix: &str) -> Result<String> {
        let dataset = format!("{}/{volume}:{suffix}", self.sessions);
        if dataset.len() + 1 + super::marks::TAG_LENGTH > MAX_NAME_BYTES {
            return Err(Error::invalid(
                "session_id",
                format!("session id `{volume}` is too long for a dataset name"),
            )
            .with_hint(format!(
                "`{}` leaves {MAX_NAME_BYTES} bytes less its own length",
                self.sessions
            )));
        }
        Ok(dataset)
    }

    pub(super) fn generation(&self, volume: &SessionId, number: u64) -> Result<String> {
        self.session(volume, &number.to_string())
    }

    /// Returns the mount point, shared by all generations, so that the path of a session survives a
    /// rollback.
    pub(super) fn volume_directory(&self, volume: &SessionId) -> PathBuf {
        self.sessions_directory.join(volume)
    }

    /// Returns the mount point with translated owners. Not a valid volume name, so it cannot
    /// collide.
    pub(super) fn translated_directory(&self, volume: &SessionId) -> PathBuf {
        self.sessions_directory.join(".translated").join(volume)
    }

    /// Parses the dataset name of a volume. `None` for other programs' datasets.
    pub(super) fn parse(&self, dataset: &str) -> Option<(SessionId, Part)> {
        let name = dataset.strip_prefix(&self.sessions)?.strip_prefix('/')?;
        let (volume, suffix) = name.split_once(':')?;
        let part = match suffix.as_bytes().first()? {
            b'v' => Part::View,
            b'r' => Part::Receiving,
            _ => Part::Generation(suffix.parse().ok()?),
        };
        Some((SessionId::new(volume).ok()?, part))
    }

    /// Parses the dataset name of a base; also returns whether it is under construction.
    pub(super) fn parse_base(&self, dataset: &str) -> Option<(BaseName, bool)> {
        let name = dataset.strip_prefix(&self.bases)?.strip_prefix('/')?;
        match name.split_once(':') {
            None => Some((BaseName::new(name).ok()?, false)),
            Some((name, _)) => Some((BaseName::new(name).ok()?, true)),
        }
    }

    /// Returns whether a snapshot is of one of our datasets.
    pub(super) fn owns(&self, snapshot: &str) -> bool {
        snapshot.split_once('@').is_some_and(|(dataset, _)| {
            self.parse(dataset).is_some() || self.parse_base(dataset).is_some()
        })
    }
}

/// Refuses names that `zfs` could take for an option, or that are invalid.
fn check_name(field: &'static str, name: &str) -> Result<()> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(fine)
        && !name.ends_with('/')
    {
        return Ok(());
    }
    Err(Error::invalid(
        field,
        format!(
            "`{}` is not the name of a pool or dataset",
            name.escape_debug()
        ),
    )
    .with_hint("for example `tank` or `tank/sandbar/sessions`"))
}

/// Returns the mount point of a top-level dataset, which is created and mounted if needed.
fn root_directory(tools: &Tools, dataset: &str) -> Result<PathBuf> {
    let fail = |failure: super::command::Failure| {
        failure.into_error(format!("prepare dataset `{dataset}`"))
    };
    let query = ["get", "-Hp", "-o", "value", "mountpoint", dataset];
    let mountpoint = match tools.zfs(&query) {
        Err(failure) if failure.fault == Fault::Missing => {
            tools
                .zfs(&[
                    "create",
                    "-p",
                    "-o",
                    "atime=off",
                    "-o",
                    "setuid=off",
                    "-o",
                    "devices=off",
                    dataset,
                ])
                .map_err(fail)?;
            tools.zfs(&query)
        }
        outcome => outcome,
    }
    .map_err(fail)?;
    let directory = PathBuf::from(mountpoint.trim_end_matches('\n'));
    if !directory.is_absolute() {
        return Err(Error::invalid(
            "pool_name",
            format!("dataset `{dataset}` has no mount point"),
        )
        .with_hint(format!(
            "run `zfs set mountpoint=/var/lib/sandbar/{dataset} {dataset}`"
        )));
    }
    if !MountTable::read()?.shows(dataset, &directory) {
        match tools.zfs_retrying(&["mount", dataset]) {
            Err(failure) if failure.fault != Fault::AlreadyMounted => return Err(fail(failure)),
            _ => {}
        }
    }
    // All sessions and bases are mounted below.
    remove_other_access(&directory)?;
    Ok(directory)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::zfs) fn layout() -> Layout {
        Layout {
            pool: "tank".into(),
            bases: "tank/bases".into(),
            sessions: "tank/sessions".into(),
            bases_directory: "/tank/bases".into(),
            sessions_directory: "/tank/sessions".into(),
            empty: "/tank/sessions/.empty".into(),
        }
    }

    #[test]
    fn names_are_taken_apart_as_they_were_put_together() {
        let layout = layout();
        let id = SessionId::new("a.b-c").unwrap();
        assert_eq!(
            layout.parse(&layout.generation(&id, 12).unwrap()),
            Some((id.clone(), Part::Generation(12)))
        );
        assert_eq!(
            layout.parse(&layout.session(&id, "v00ff").unwrap()),
            Some((id.clone(), Part::View))
        );
        assert_eq!(
            layout.parse(&layout.session(&id, "r00ff").unwrap()),
            Some((id, Part::Receiving))
        );
    }

    #[test]
    fn datasets_of_others_are_not_ours() {
        let layout = layout();
        for foreign in [
            "tank/sessions",
            "tank/sessions/home",
            "tank/sessions/x:y",
            "tank/sessionsx/a:0",
            "other/a:0",
        ] {
            assert_eq!(layout.parse(foreign), None, "{foreign}");
        }
        assert!(!layout.owns("tank/home@ready"));
        assert!(layout.owns("tank/bases/host@ready"));
    }

    #[test]
    fn a_name_that_would_be_an_option_is_refused() {
        for bad in ["", "-r", "a b", "tank/", "tank@x", "tank\n"] {
            assert!(check_name("pool_name", bad).is_err(), "{bad:?}");
        }
        check_name("pool_name", "tank/sandbar_1.x").unwrap();
    }

    #[test]
    fn a_session_id_too_long_for_the_pool_is_refused() {
        let mut layout = layout();
        layout.sessions = format!("tank/{}", "x".repeat(120));
        assert!(
            layout
                .generation(&SessionId::new("s".repeat(128)).unwrap(), 0)
                .is_err()
        );
    }
}
