//! Real file systems in files.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::mount::{UnmountFlags, unmount};

/// A file system to test on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Btrfs,
    /// With reflinks, and with project quotas where the kernel has them.
    Xfs,
    /// Without either.
    Ext4,
    /// In memory; `mkfs` is not needed.
    Tmpfs,
    /// An overlay, which cannot carry another one.
    Overlay,
}

/// A mounted file system. Call [`private_mounts`](crate::private_mounts) first.
#[derive(Debug)]
pub struct Image {
    directory: PathBuf,
}

impl Image {
    /// Makes and mounts a file system of `mebibytes` below `scratch`.
    pub fn new(scratch: &Path, kind: FileSystem, mebibytes: u64) -> Self {
        let directory = scratch.join(format!("{kind:?}").to_lowercase());
        fs::create_dir(&directory).unwrap();
        let size = format!("size={mebibytes}M");
        if kind == FileSystem::Tmpfs {
            run(
                "mount",
                &[
                    "-t",
                    "tmpfs",
                    "-o",
                    &size,
                    "sandbar-test",
                    path_text(&directory),
                ],
            );
            return Self { directory };
        }
        if kind == FileSystem::Overlay {
            let part = |name: &str| {
                let path = scratch.join(format!("overlay-{name}"));
                fs::create_dir(&path).unwrap();
                path_text(&path).to_owned()
            };
            let options = format!(
                "lowerdir={},upperdir={},workdir={}",
                part("lower"),
                part("upper"),
                part("work")
            );
            run(
                "mount",
                &[
                    "-t",
                    "overlay",
                    "-o",
                    &options,
                    "sandbar-test",
                    path_text(&directory),
                ],
            );
            return Self { directory };
        }
        let file = directory.with_extension("image");
        File::create(&file)
            .unwrap()
            .set_len(mebibytes << 20)
            .unwrap();
        let (program, options, mount_options): (&str, &[&str], &str) = match kind {
            FileSystem::Btrfs => ("mkfs.btrfs", &["-q", "-f"], "loop,noatime"),
            FileSystem::Xfs => (
                "mkfs.xfs",
                &["-q", "-f", "-m", "reflink=1"],
                "loop,noatime,prjquota",
            ),
            FileSystem::Ext4 => ("mkfs.ext4", &["-q", "-F", "-O", "^project"], "loop,noatime"),
            FileSystem::Tmpfs | FileSystem::Overlay => unreachable!("handled above"),
        };
        let mut arguments = options.to_vec();
        arguments.push(path_text(&file));
        run(program, &arguments);
        let mount = |options: &str| {
            attempt(
                "mount",
                &["-o", options, path_text(&file), path_text(&directory)],
            )
        };
        mount(mount_options)
            .or_else(|_| mount("loop,noatime"))
            .unwrap_or_else(|why| panic!("{why}"));
        Self { directory }
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // A test that fails may have left something open on it; the namespace takes the rest.
        let _ = unmount(&self.directory, UnmountFlags::DETACH);
    }
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a program and insists that it succeeds.
fn run(program: &str, arguments: &[&str]) {
    attempt(program, arguments).unwrap_or_else(|why| panic!("{why}"));
}

fn attempt(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    ))
}
