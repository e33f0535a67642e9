//! `sandbar cp`.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{EntryType, Error, ErrorCode, Result, SessionId, WriteOptions};
use tokio::io::AsyncRead;
use tokio_util::io::InspectReader;

use crate::{
    client::tree::{self, TopLevel},
    failure::{Failure, Outcome},
    terminal::Progress,
};

#[derive(Args, Debug)]
#[command(
    about = "Copy files and directories between this machine and a sandbox",
    long_about = "\
Copy files and directories between this machine and a sandbox.

One side is `ID:path`, the other a path here. A path in the sandbox that is not absolute starts at /workspace.

As with `docker cp`: a file is copied to the given name or into the given directory. A directory is copied into a directory
that exists, or to the given name; `dir/.` copies its contents. The parent of the target must exist. `-` as SRC unpacks a tar
from stdin into a directory; `-` as DST writes a tar to stdout. Links are copied as links. Modes and times are kept; the
copy belongs to the user that copies.",
    after_help = "\
Examples:
  sandbar cp notes.txt build-42:notes.txt
  sandbar cp ./src build-42:/workspace
  sandbar cp build-42:/workspace/out ./out
  tar c src | sandbar cp - build-42:/workspace
  sandbar cp build-42:out - | tar t"
)]
pub(crate) struct CpArgs {
    /// Source: a local path, ID:path, or - for a tar on stdin
    #[arg(value_name = "SRC")]
    source: OsString,
    /// Target: a local path, ID:path, or - for a tar on stdout
    #[arg(value_name = "DST")]
    target: OsString,
}

/// One side of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Side {
    Here(PathBuf),
    Stream,
    Sandbox(SessionId, PathBuf),
}

impl Side {
    /// Parses `ID:path`, `-` or a local path. A `:` after a `/` or `.` belongs to a local path.
    fn parse(text: OsString) -> Result<Self> {
        if text == "-" {
            return Ok(Self::Stream);
        }
        let Some((id, path)) = text.to_str().and_then(|text| text.split_once(':')) else {
            return Ok(Self::Here(text.into()));
        };
        if id.starts_with(['/', '.']) || id.contains('/') {
            return Ok(Self::Here(text.into()));
        }
        let id = id.parse::<SessionId>().map_err(|error| {
            Error::invalid("path", error.to_string())
                .with_hint("write ID:path; a path here that has a `:` starts with `./`")
        })?;
        let path = if path.is_empty() { "/workspace" } else { path };
        Ok(Self::Sandbox(id, path.into()))
    }
}

pub(crate) async fn execute(args: CpArgs, client: &Client) -> Outcome {
    let usage = |what: &str| {
        Failure::Usage(
            Error::invalid("path", what)
                .with_hint("write one side as ID:path: `sandbar cp notes.txt ID:notes.txt`"),
        )
    };
    let source = Side::parse(args.source).map_err(Failure::Usage)?;
    let target = Side::parse(args.target).map_err(Failure::Usage)?;
    match (source, target) {
        (Side::Here(source), Side::Sandbox(id, target)) => {
            copy_in(client, &id, &source, &target).await?;
        }
        (Side::Sandbox(id, source), Side::Here(target)) => {
            copy_out(client, &id, &source, &target).await?;
        }
        (Side::Stream, Side::Sandbox(id, target)) => {
            require_directory(client, &id, &target).await?;
            client
                .import_tree(
                    &id,
                    &target,
                    counted(tokio::io::stdin(), Progress::new("copying")),
                )
                .await?;
        }
        (Side::Sandbox(id, source), Side::Stream) => {
            client
                .export_tree(&id, &source, &mut tokio::io::stdout())
                .await
                .map_err(broken_pipe)?;
        }
        (Side::Sandbox(..), Side::Sandbox(..)) => {
            return Err(usage(
                "both sides are in a sandbox — copy to this machine first",
            ));
        }
        _ => return Err(usage("neither side is in a sandbox")),
    }
    Ok(ExitCode::SUCCESS)
}

async fn copy_in(client: &Client, id: &SessionId, source: &Path, target: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(source).map_err(|error| {
        Error::io(format!("could not read `{}`", source.display()), error)
            .with_hint("give a file or directory that exists")
    })?;
    let found = entry_in_sandbox(client, id, target).await?;
    if metadata.is_dir() {
        if found == Some(TargetKind::Other) {
            return Err(not_a_directory(&format!("{id}:{}", target.display())));
        }
        let bar = Progress::new("copying");
        if names_contents(source) && found == Some(TargetKind::Directory) {
            return tree::send(
                client,
                id,
                source.to_owned(),
                TopLevel::Contents,
                target,
                bar,
            )
            .await
            .map(drop);
        }
        let target = match found {
            Some(TargetKind::Directory) => target.join(own_name(source)?),
            _ => target.to_owned(),
        };
        let (parent, name) = split(&target)?;
        require_directory(client, id, parent).await?;
        return tree::send(
            client,
            id,
            source.to_owned(),
            TopLevel::Named(name),
            parent,
            bar,
        )
        .await
        .map(drop);
    }
    let target = match found {
        Some(TargetKind::Directory) => target.join(own_name(source)?),
        _ if ends_in_slash(target) => {
            return Err(no_such_directory(&format!("{id}:{}", target.display())));
        }
        _ => target.to_owned(),
    };
    let (parent, name) = split(&target)?;
    require_directory(client, id, parent).await?;
    if metadata.is_file() {
        // `write_file` replaces the target atomically.
        let file = tokio::fs::File::open(source)
            .await
            .map_err(|error| Error::io(format!("could not read `{}`", source.display()), error))?;
        let options = WriteOptions {
            mode: Some(mode(&metadata)),
            ..WriteOptions::default()
        };
        client
            .write_file(
                id,
                &target,
                options,
                counted(file, Progress::of("copying", metadata.len())),
            )
            .await
            .map(drop)
    } else {
        tree::send(
            client,
            id,
            source.to_owned(),
            TopLevel::Named(name),
            parent,
            Progress::new("copying"),
        )
        .await
        .map(drop)
    }
}

async fn copy_out(client: &Client, id: &SessionId, source: &Path, target: &Path) -> Result<()> {
    let stat = client.stat(id, source).await?;
    let here = fs::metadata(target);
    let is_directory = here.as_ref().is_ok_and(fs::Metadata::is_dir);
    if stat.entry == EntryType::Directory && here.is_ok() && !is_directory {
        return Err(not_a_directory(&target.display().to_string()));
    }
    if stat.entry != EntryType::Directory && !is_directory && ends_in_slash(target) {
        return Err(no_such_directory(&target.display().to_string()));
    }
    let contents = is_directory && stat.entry == EntryType::Directory && names_contents(source);
    let (directory, name) = if contents {
        (target.to_owned(), None)
    } else {
        // The root of a sandbox has no name; its copy is named after the sandbox.
        let target = if is_directory {
            target.join(stat.path.file_name().unwrap_or(id.as_str().as_ref()))
        } else {
            target.into()
        };
        let (parent, name) = split(&target)?;
        (parent.to_owned(), Some(name))
    };
    if !directory.is_dir() {
        return Err(no_such_directory(&directory.display().to_string()));
    }
    let progress = match stat.entry {
        EntryType::File => Progress::of("copying", stat.size.0),
        _ => Progress::new("copying"),
    };
    tree::receive(client, id, &stat.path, directory, name, progress).await
}

/// Wraps a reader so that the bytes read are counted.
fn counted<R: AsyncRead>(
    source: R,
    progress: Progress,
) -> InspectReader<R, impl FnMut(&[u8]) + Send> {
    InspectReader::new(source, move |bytes| progress.add(bytes.len()))
}

/// Kind of an entry in the sandbox, with links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetKind {
    Directory,
    Other,
}

async fn entry_in_sandbox(
    client: &Client,
    id: &SessionId,
    path: &Path,
) -> Result<Option<TargetKind>> {
    match client.stat(id, path).await {
        Ok(stat) if stat.entry == EntryType::Directory => Ok(Some(TargetKind::Directory)),
        Ok(stat) if stat.entry == EntryType::Symlink => {
            let through = client.stat(id, &path.join(".")).await;
            Ok(Some(if through.is_ok() {
                TargetKind::Directory
            } else {
                TargetKind::Other
            }))
        }
        Ok(_) => Ok(Some(TargetKind::Other)),
        Err(error) if error.code() == ErrorCode::FileNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn require_directory(client: &Client, id: &SessionId, path: &Path) -> Result<()> {
    match entry_in_sandbox(client, id, path).await? {
        Some(TargetKind::Directory) => Ok(()),
        Some(TargetKind::Other) => Err(not_a_directory(&format!("{id}:{}", path.display()))),
        None => Err(no_such_directory(&format!("{id}:{}", path.display()))),
    }
}

fn not_a_directory(path: &str) -> Error {
    Error::invalid("path", format!("`{path}` is not a directory"))
        .with_hint("give a directory, or a name that does not exist")
}

fn no_such_directory(path: &str) -> Error {
    Error::new(
        ErrorCode::FileNotFound,
        format!("directory `{path}` does not exist"),
    )
    .with_hint("create it first")
}

/// Returns whether a path ends in `/.`, which means the contents of the directory.
fn names_contents(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes == b"." || bytes.ends_with(b"/.")
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Returns the name of a copy of `path` inside a directory; `.` and `..` are resolved first.
fn own_name(path: &Path) -> Result<OsString> {
    if let Some(name) = path.file_name().filter(|_| !names_contents(path)) {
        return Ok(name.to_owned());
    }
    let real = path
        .canonicalize()
        .map_err(|error| Error::io(format!("could not read `{}`", path.display()), error))?;
    Ok(real
        .file_name()
        .map_or_else(|| "root".into(), ToOwned::to_owned))
}

fn split(target: &Path) -> Result<(&Path, OsString)> {
    match (target.parent(), target.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
            Ok((Path::new("."), name.to_owned()))
        }
        (Some(parent), Some(name)) => Ok((parent, name.to_owned())),
        _ => Err(Error::invalid(
            "path",
            format!("`{}` has no name to copy to", target.display()),
        )
        .with_hint("name the file or directory to create")),
    }
}

fn mode(metadata: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777
}

fn broken_pipe(error: Error) -> Failure {
    let source =
        std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
    if source.is_some_and(|source| source.kind() == io::ErrorKind::BrokenPipe) {
        Failure::BrokenPipe
    } else {
        error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_with_a_colon_is_in_a_sandbox_unless_it_is_a_path() {
        let sandbox = |id: &str, path: &str| Side::Sandbox(id.parse().unwrap(), path.into());
        for (text, side) in [
            ("box:/a", sandbox("box", "/a")),
            ("box:a:b", sandbox("box", "a:b")),
            ("box:", sandbox("box", "/workspace")),
            ("./a:b", Side::Here("./a:b".into())),
            ("/a:b", Side::Here("/a:b".into())),
            ("dir/a:b", Side::Here("dir/a:b".into())),
            ("plain", Side::Here("plain".into())),
            ("-", Side::Stream),
        ] {
            assert_eq!(Side::parse(text.into()).unwrap(), side, "{text}");
        }
        assert!(Side::parse("bad id:/a".into()).is_err());
    }

    #[test]
    fn trailing_dot_means_the_contents() {
        for (path, contents) in [
            ("a/.", true),
            (".", true),
            ("a", false),
            ("a.", false),
            ("a/..", false),
        ] {
            assert_eq!(names_contents(Path::new(path)), contents, "{path}");
        }
    }
}
