//! Writes to the shared base through a box's own layer. A box may change its own view of a file;
//! only the test outside can see whether the base changed, so most of these attempts report `held`.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, PermissionsExt},
    },
    path::Path,
};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, text},
    facts::Facts,
    scratch::Scratch,
    verdict::{Inconclusive, Outcome, escaped, held, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "filesystem",
    attempts: &[
        Attempt::new(
            "base-write",
            "overwrites a file of the base; escaped when the base changes",
            |facts| did(overwrite(facts.path("base-file")?)),
        ),
        Attempt::new(
            "base-truncate",
            "truncates a file of the base; escaped when the base changes",
            |facts| did(File::create(facts.path("base-file")?)),
        ),
        Attempt::new(
            "base-append",
            "appends to a file of the base; escaped when the base changes",
            |facts| {
                let file = OpenOptions::new()
                    .append(true)
                    .open(facts.path("base-file")?);
                did(file.and_then(|mut file| file.write_all(MARK)))
            },
        ),
        Attempt::new(
            "base-hard-link",
            "overwrites a file of the base through a hard link; escaped when the base changes",
            hard_link,
        ),
        Attempt::new(
            "base-replace",
            "renames a file over one of the base; escaped when the base changes",
            replace,
        ),
        Attempt::new(
            "base-delete",
            "deletes a file of the base; escaped when the base changes",
            |facts| did(fs::remove_file(facts.path("base-file")?)),
        ),
        Attempt::new(
            "base-map",
            "writes a file of the base through a shared mapping; escaped when the base changes",
            map,
        ),
        Attempt::new(
            "base-reopen",
            "reopens a read-only descriptor of a base file for writing; escaped when the base changes",
            |facts| {
                let file = File::open(facts.path("base-file")?)?;
                did(overwrite(Path::new(&format!(
                    "/proc/self/fd/{}",
                    file.as_raw_fd()
                ))))
            },
        ),
        Attempt::new(
            "base-metadata",
            "changes mode and times of a file of the base; escaped when the base changes",
            |facts| {
                let path = facts.path("base-file")?;
                let changed = fs::set_permissions(path, Permissions::from_mode(0o6777));
                did(changed.and_then(|()| {
                    File::options()
                        .write(true)
                        .open(path)?
                        .set_modified(std::time::UNIX_EPOCH)
                }))
            },
        ),
        Attempt::new(
            "base-attribute",
            "sets an extended attribute of a file of the base; escaped when the base changes",
            |facts| {
                let path = text(facts.path("base-file")?)?;
                did(call!(
                    SYS_setxattr,
                    &path,
                    c"user.intruder",
                    Argument::read(MARK),
                    MARK.len(),
                    0
                ))
            },
        ),
        Attempt::new(
            "base-private-memory",
            "writes a private mapping of a base file through /proc/self/mem; escaped when the file changes",
            private_memory,
        ),
        Attempt::new(
            "base-dirty-pipe",
            "writes the page cache of a base file through a pipe (CVE-2022-0847); escaped when the file changes",
            dirty_pipe,
        ),
        Attempt::new(
            "file-immutable",
            "sets the immutable flag, which stops the host from deleting the file; escaped when the call succeeds",
            immutable,
        ),
        Attempt::new(
            "file-lease",
            "takes a write lease on a file, which blocks other processes that open it; escaped when the call succeeds",
            lease,
        ),
        Attempt::new(
            "watch-mounts",
            "creates a fanotify group that decides on file accesses; escaped when the call succeeds",
            |_| {
                const CLASS_CONTENT: u32 = 4;
                refused(
                    crate::call::descriptor(call!(
                        SYS_fanotify_init,
                        CLASS_CONTENT,
                        libc::O_RDONLY
                    )),
                    "created a fanotify permission group",
                )
            },
        ),
    ],
};

const MARK: &[u8] = b"the intruder was here\n";

/// Reports the change of the box's own view as held; the test checks the base.
fn did<T>(result: io::Result<T>) -> Outcome {
    match result {
        Ok(_) => held("changed the view of the box; the test checks the base"),
        Err(error) => held(error),
    }
}

fn overwrite(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(MARK)
}

fn beside(path: &Path) -> Result<Scratch, Inconclusive> {
    Ok(Scratch::below(path.parent().unwrap_or(Path::new("/")))?)
}

fn hard_link(facts: &Facts) -> Outcome {
    let path = facts.path("base-file")?;
    let scratch = beside(path)?;
    let link = scratch.name("link");
    did(fs::hard_link(path, &link).and_then(|()| overwrite(&link)))
}

fn replace(facts: &Facts) -> Outcome {
    let path = facts.path("base-file")?;
    let scratch = beside(path)?;
    let file = scratch.file("file", MARK)?;
    did(fs::rename(file, path))
}

fn map(facts: &Facts) -> Outcome {
    let scratch = Scratch::new()?;
    let source = File::open(scratch.file("source", MARK)?)?;
    let file = match File::options()
        .read(true)
        .write(true)
        .open(facts.path("base-file")?)
    {
        Ok(file) => file,
        Err(error) => return held(error),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let place = call!(
        SYS_mmap,
        0,
        MARK.len(),
        protection,
        libc::MAP_SHARED,
        file.as_raw_fd(),
        0
    )?;
    // `pread` writes into the mapping as into any buffer.
    did(call!(SYS_pread64, source.as_raw_fd(), place, MARK.len(), 0))
}

fn private_memory(facts: &Facts) -> Outcome {
    let path = facts.path("base-file")?;
    let before = fs::read(path)?;
    let file = File::open(path)?;
    let place = call!(
        SYS_mmap,
        0,
        MARK.len(),
        libc::PROT_READ,
        libc::MAP_PRIVATE,
        file.as_raw_fd(),
        0
    )?;
    let memory = match File::options().write(true).open("/proc/self/mem") {
        Ok(memory) => memory,
        Err(error) => return held(error),
    };
    let written = memory.write_all_at(MARK, u64::try_from(place).map_err(io::Error::other)?);
    if fs::read(path)? != before {
        return escaped("file changed without being open for writing");
    }
    did(written)
}

fn dirty_pipe(facts: &Facts) -> Outcome {
    let path = facts.path("base-file")?;
    let before = fs::read(path)?;
    let file = File::open(path)?;
    let (mut reader, mut writer) = io::pipe()?;
    // Using every buffer of the pipe once sets the merge flag that vulnerable kernels do not clear.
    let size = call!(SYS_fcntl, writer.as_raw_fd(), libc::F_GETPIPE_SZ)?;
    let mut filling = vec![0; size];
    writer.write_all(&filling)?;
    reader.read_exact(&mut filling)?;
    let mut offset = 0_u64;
    call!(
        SYS_splice,
        file.as_raw_fd(),
        Argument::write(&mut offset),
        writer.as_raw_fd(),
        Argument::NULL,
        1,
        0
    )?;
    writer.write_all(b"#")?;
    if fs::read(path)? == before {
        return held("file did not change");
    }
    escaped("file changed without being open for writing")
}

fn lease(_: &Facts) -> Outcome {
    let scratch = Scratch::here()?;
    let file = File::options()
        .read(true)
        .write(true)
        .open(scratch.file("file", b"")?)?;
    refused(
        call!(SYS_fcntl, file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK),
        "write lease taken, which blocks opens by the host",
    )
}

fn immutable(_: &Facts) -> Outcome {
    // `_IOR('f', 1, long)` and `_IOW('f', 2, long)`.
    const GET_FLAGS: u32 = 0x8008_6601;
    const SET_FLAGS: u32 = 0x4008_6602;
    const IMMUTABLE: u64 = 0x10;
    let scratch = Scratch::here()?;
    let file = File::open(scratch.file("file", b"")?)?;
    let mut flags = 0_u64;
    if let Err(error) = call!(
        SYS_ioctl,
        file.as_raw_fd(),
        GET_FLAGS,
        Argument::write(&mut flags)
    ) {
        return held(error);
    }
    let wanted = flags | IMMUTABLE;
    let set = call!(
        SYS_ioctl,
        file.as_raw_fd(),
        SET_FLAGS,
        Argument::read(&wanted)
    );
    if set.is_ok() {
        call!(
            SYS_ioctl,
            file.as_raw_fd(),
            SET_FLAGS,
            Argument::read(&flags)
        )?;
    }
    refused(set, "immutable flag set")
}
