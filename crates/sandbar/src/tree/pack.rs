//! A file or directory of this machine as a tar stream.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, Read, Write},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use sandbar_core::{Error, Result};
use tar::{Builder, EntryType, Header, HeaderMode};

/// What the names in the stream start with.
#[derive(Clone, Debug)]
pub(crate) enum TopLevel {
    /// The source itself, under this name.
    Named(OsString),
    /// What is in the source, without the source.
    Contents,
}

/// Writes `source` as a tar stream. Links are kept as links; everything belongs to root in the sandbox, whoever owns it
/// here; sockets are left out, since they mean nothing elsewhere.
pub(crate) fn pack(source: &Path, top: &TopLevel, output: impl Write) -> Result<()> {
    let mut packer = Packer { builder: Builder::new(output), linked: HashMap::new() };
    let complain = |error| Error::io(format!("could not read `{}`", source.display()), error);
    match top {
        TopLevel::Named(name) => packer.add(source, Path::new(name))?,
        TopLevel::Contents => packer.add_children(source, Path::new(""))?,
    }
    packer.builder.into_inner().and_then(|mut output| output.flush()).map_err(complain)
}

struct Packer<W: Write> {
    builder: Builder<W>,
    /// The first name of every file that has several.
    linked: HashMap<(u64, u64), PathBuf>,
}

impl<W: Write> Packer<W> {
    fn add(&mut self, source: &Path, name: &Path) -> Result<()> {
        let complain = |error| Error::io(format!("could not copy `{}`", source.display()), error);
        let metadata = fs::symlink_metadata(source).map_err(complain)?;
        let kind = metadata.file_type();
        if kind.is_socket() {
            return Ok(());
        }
        self.add_entry(source, name, &metadata).map_err(complain)?;
        if kind.is_dir() { self.add_children(source, name) } else { Ok(()) }
    }

    fn add_children(&mut self, source: &Path, name: &Path) -> Result<()> {
        let complain = |error| Error::io(format!("could not read `{}`", source.display()), error);
        let mut children = fs::read_dir(source)
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>())
            .map_err(complain)?;
        children.sort();
        children.into_iter().try_for_each(|child| self.add(&source.join(&child), &name.join(&child)))
    }

    fn add_entry(&mut self, source: &Path, name: &Path, metadata: &Metadata) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_metadata_in_mode(metadata, HeaderMode::Complete);
        header.set_uid(0);
        header.set_gid(0);
        let kind = metadata.file_type();
        if kind.is_symlink() {
            header.set_size(0);
            return self.builder.append_link(&mut header, name, fs::read_link(source)?);
        }
        if kind.is_file() && metadata.nlink() > 1 {
            if let Some(first) = self.linked.get(&(metadata.dev(), metadata.ino())) {
                header.set_entry_type(EntryType::Link);
                header.set_size(0);
                return self.builder.append_link(&mut header, name, first);
            }
            self.linked.insert((metadata.dev(), metadata.ino()), name.to_owned());
        }
        if kind.is_file() {
            let file = File::open(source)?;
            return self.builder.append_data(&mut header, name, Exactly { file, left: metadata.len() });
        }
        header.set_size(0);
        self.builder.append_data(&mut header, name, io::empty())
    }
}

/// As many bytes as the header promised. A file that shrinks meanwhile would shift everything behind it.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.file.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}
