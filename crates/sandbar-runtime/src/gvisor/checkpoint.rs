//! Record beside a checkpoint image of `runsc`: what the host must know about the commands in it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sandbar_core::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};

use crate::sandbox::RunningNumbers;

/// Format version. Incremented when a field is added.
const FORMAT: u32 = 1;

/// Description of a checkpoint image.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointRecord {
    format: u32,
    /// Version that wrote the image. Only the same version can read it.
    runsc: String,
    pub(super) next_command: u64,
    /// Commands whose named pipes are open in the image.
    pub(super) with_pipes: Vec<u64>,
}

impl CheckpointRecord {
    pub(super) fn new(runsc: &str, numbers: &RunningNumbers) -> Self {
        Self {
            format: FORMAT,
            runsc: runsc.to_owned(),
            next_command: numbers.next,
            with_pipes: numbers.with_pipes.clone(),
        }
    }

    fn path(directory: &Path) -> PathBuf {
        directory.join("sandbox.json")
    }

    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        fs::write(Self::path(directory), serde_json::to_vec(self)?)
    }

    /// Reads the record and checks that this version of `runsc` can restore the image.
    pub(super) fn read(directory: &Path, runsc: &str) -> Result<Self> {
        let failed = |error: io::Error| {
            Error::io(
                format!("read the checkpoint in `{}`", directory.display()),
                error,
            )
        };
        let text = fs::read(Self::path(directory)).map_err(failed)?;
        let record: Self = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
        if record.format != FORMAT || record.runsc != runsc {
            return Err(Error::new(
                ErrorCode::InvalidState,
                format!(
                    "checkpoint was written by runsc {} and cannot be restored by runsc {runsc}",
                    record.runsc
                ),
            )
            .with_hint(
                "start the session without its processes, or install that version of runsc",
            ));
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_of_another_runsc_version_is_rejected() {
        let directory = std::env::temp_dir().join(format!("sandbar-test-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let record = CheckpointRecord::new(
            "1.0",
            &RunningNumbers {
                next: 7,
                with_pipes: vec![3, 5],
            },
        );
        record.write(&directory).unwrap();
        let read = CheckpointRecord::read(&directory, "1.0");
        let other = CheckpointRecord::read(&directory, "2.0");
        fs::remove_file(CheckpointRecord::path(&directory)).unwrap();
        fs::remove_dir(&directory).unwrap();
        assert_eq!(read.unwrap(), record);
        let error = other.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        assert!(error.message().contains("runsc 1.0") && error.hint().is_some());
    }
}
