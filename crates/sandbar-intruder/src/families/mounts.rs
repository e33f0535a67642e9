//! Changes to mounts.

use std::{
    ffi::CStr,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, descriptor, text},
    child::result_in_child,
    facts::Facts,
    scratch::{Scratch, leave_mount_namespace},
    verdict::{Inconclusive, Outcome, held, not_permitted},
};

pub(crate) const FAMILY: Family = Family {
    name: "mounts",
    attempts: &[
        Attempt::new(
            "mount-tmpfs",
            "mounts a tmpfs; escaped when the permission check passes",
            |_| mount(c"tmpfs", None),
        ),
        Attempt::new(
            "mount-proc",
            "mounts a new procfs without masks; escaped when the permission check passes",
            |_| mount(c"proc", None),
        ),
        Attempt::new(
            "mount-sysfs",
            "mounts a new sysfs; escaped when the permission check passes",
            |_| mount(c"sysfs", None),
        ),
        Attempt::new(
            "mount-devtmpfs",
            "mounts devtmpfs, which shows all devices of the host; escaped when the permission check passes",
            |_| mount(c"devtmpfs", None),
        ),
        Attempt::new(
            "mount-devpts",
            "mounts a devpts; escaped when the permission check passes",
            |_| mount(c"devpts", None),
        ),
        Attempt::new(
            "mount-cgroup",
            "mounts the v1 memory hierarchy; escaped when the permission check passes",
            |_| mount(c"cgroup", Some(c"memory")),
        ),
        Attempt::new(
            "mount-cgroup2",
            "mounts the v2 hierarchy; escaped when the permission check passes",
            |_| mount(c"cgroup2", None),
        ),
        Attempt::new(
            "mount-debugfs",
            "mounts debugfs; escaped when the permission check passes",
            |_| mount(c"debugfs", None),
        ),
        Attempt::new(
            "mount-tracefs",
            "mounts tracefs; escaped when the permission check passes",
            |_| mount(c"tracefs", None),
        ),
        Attempt::new(
            "mount-securityfs",
            "mounts securityfs; escaped when the permission check passes",
            |_| mount(c"securityfs", None),
        ),
        Attempt::new(
            "mount-bpf",
            "mounts bpffs, which shows pinned BPF objects; escaped when the permission check passes",
            |_| mount(c"bpf", None),
        ),
        Attempt::new(
            "mount-mqueue",
            "mounts the POSIX message queue file system; escaped when the permission check passes",
            |_| mount(c"mqueue", None),
        ),
        Attempt::new(
            "mount-binfmt-misc",
            "mounts binfmt_misc, which registers interpreters; escaped when the permission check passes",
            |_| mount(c"binfmt_misc", None),
        ),
        Attempt::new(
            "mount-overlay",
            "mounts an overlay of its own directories; escaped when the permission check passes",
            overlay,
        ),
        Attempt::new(
            "mount-bind",
            "bind-mounts one of its directories over another; escaped when the permission check passes",
            bind,
        ),
        Attempt::new(
            "mount-move",
            "moves the mount at /proc; escaped when the permission check passes",
            move_proc,
        ),
        Attempt::new(
            "mount-remount-writable",
            "remounts read-only mounts writable; escaped when the permission check passes for one",
            remount_writable,
        ),
        Attempt::new(
            "mount-propagation",
            "makes the root mount shared, so that mounts propagate; escaped when the permission check passes",
            |_| {
                in_own_namespace(|_| {
                    call!(
                        SYS_mount,
                        c"none",
                        c"/",
                        Argument::NULL,
                        libc::MS_SHARED,
                        Argument::NULL
                    )
                })
            },
        ),
        Attempt::new(
            "mount-unmount",
            "unmounts every mount except the root, masks included; escaped when the permission check passes for one",
            unmount,
        ),
        Attempt::new(
            "mount-open-tree",
            "clones the mount at `/` with `open_tree`; escaped when the permission check passes",
            |_| open_tree(c"/"),
        ),
        Attempt::new(
            "mount-open-tree-of-process-1",
            "clones the mount at `/proc/1/root` with `open_tree`; escaped when the permission check passes",
            |_| open_tree(c"/proc/1/root"),
        ),
        Attempt::new(
            "mount-fsopen",
            "creates a tmpfs context with `fsopen`; escaped when the permission check passes",
            |_| in_own_namespace(|_| descriptor(call!(SYS_fsopen, c"tmpfs", 1))),
        ),
        Attempt::new(
            "mount-fspick",
            "opens the file system at `/` for reconfiguration with `fspick`; escaped when the permission check passes",
            |_| in_own_namespace(|_| descriptor(call!(SYS_fspick, libc::AT_FDCWD, c"/", 1))),
        ),
        Attempt::new(
            "mount-move-mount",
            "moves a mount with `move_mount`; escaped when the permission check passes",
            move_mount,
        ),
        Attempt::new(
            "mount-setattr",
            "changes mount attributes with `mount_setattr`; escaped when the permission check passes",
            set_attributes,
        ),
        Attempt::new(
            "mount-in-user-namespace",
            "mounts a tmpfs with the capabilities of a nested user namespace; escaped when the permission check passes",
            in_user_namespace,
        ),
    ],
};

/// Makes a mount call on a fresh directory, in a mount namespace that ends with the call.
fn in_own_namespace<T>(work: impl FnOnce(&Path) -> io::Result<T>) -> Outcome {
    let scratch = Scratch::new()?;
    let target = scratch.directory("target")?;
    let result = result_in_child(|| {
        leave_mount_namespace()?;
        work(&target)
    })?;
    not_permitted(result, "mount call permitted")
}

fn mount(kind: &'static CStr, options: Option<&'static CStr>) -> Outcome {
    in_own_namespace(|target| mount_at(kind, target, options))
}

fn mount_at(kind: &CStr, target: &Path, options: Option<&CStr>) -> io::Result<usize> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    call!(
        SYS_mount,
        kind,
        &text(target)?,
        kind,
        flags,
        options.map_or(Argument::NULL, Argument::from)
    )
}

fn overlay(_: &Facts) -> Outcome {
    let scratch = Scratch::new()?;
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| scratch.directory(name));
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower?.display(),
        upper?.display(),
        work?.display()
    );
    let options = text(options)?;
    // The kernel creates this directory; register it for removal.
    let _ = scratch.name("work/work");
    in_own_namespace(|target| mount_at(c"overlay", target, Some(&options)))
}

fn bind(_: &Facts) -> Outcome {
    let scratch = Scratch::new()?;
    let source = text(scratch.directory("source")?)?;
    in_own_namespace(|target| {
        call!(
            SYS_mount,
            &source,
            &text(target)?,
            Argument::NULL,
            libc::MS_BIND,
            Argument::NULL
        )
    })
}

fn move_proc(_: &Facts) -> Outcome {
    in_own_namespace(|target| {
        call!(
            SYS_mount,
            c"/proc",
            &text(target)?,
            Argument::NULL,
            libc::MS_MOVE,
            Argument::NULL
        )
    })
}

/// Mount points, deepest last, with their options.
fn mount_points() -> Result<Vec<(PathBuf, String)>, Inconclusive> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    Ok(fields
        .filter(|fields| fields.len() > 3)
        .map(|fields| (fields[1].into(), fields[3].to_owned()))
        .collect())
}

fn remount_writable(_: &Facts) -> Outcome {
    let mounts = mount_points()?;
    let read_only = mounts
        .iter()
        .filter(|(_, options)| options.split(',').any(|option| option == "ro"));
    let mut places: Vec<&Path> = read_only.map(|(place, _)| place.as_path()).collect();
    // Without a read-only mount, try the root: the kernel makes the same permission check.
    if places.is_empty() {
        places.push(Path::new("/"));
    }
    first_success(&places, |place| {
        // Changes only the mount, not its file system, which may be the host's.
        let flags = libc::MS_REMOUNT | libc::MS_BIND;
        call!(
            SYS_mount,
            c"none",
            &text(place)?,
            Argument::NULL,
            flags,
            Argument::NULL
        )
    })
}

fn unmount(_: &Facts) -> Outcome {
    let mounts = mount_points()?;
    let places: Vec<&Path> = mounts
        .iter()
        .map(|(place, _)| place.as_path())
        .filter(|&p| p != Path::new("/"))
        .collect();
    if places.is_empty() {
        return held("only the root is mounted");
    }
    first_success(&places, |place| {
        call!(SYS_umount2, &text(place)?, libc::MNT_DETACH)
    })
}

fn first_success(places: &[&Path], work: impl Fn(&Path) -> io::Result<usize>) -> Outcome {
    in_own_namespace(|_| {
        let mut last = Ok(0);
        for place in places {
            last = work(place);
            if last.is_ok() {
                break;
            }
        }
        last
    })
}

const OPEN_TREE_CLONE: u32 = 1;

fn open_tree(path: &'static CStr) -> Outcome {
    in_own_namespace(|_| descriptor(call!(SYS_open_tree, libc::AT_FDCWD, path, OPEN_TREE_CLONE)))
}

fn move_mount(_: &Facts) -> Outcome {
    in_own_namespace(|target| {
        call!(
            SYS_move_mount,
            libc::AT_FDCWD,
            c"/proc",
            libc::AT_FDCWD,
            &text(target)?,
            0
        )
    })
}

/// `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn set_attributes(_: &Facts) -> Outcome {
    const READ_ONLY: u64 = 1;
    in_own_namespace(|_| {
        let attributes = MountAttributes {
            set: 0,
            clear: READ_ONLY,
            propagation: 0,
            user_namespace: 0,
        };
        let length = size_of::<MountAttributes>();
        call!(
            SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/",
            0,
            Argument::read(&attributes),
            length
        )
    })
}

fn in_user_namespace(_: &Facts) -> Outcome {
    in_own_namespace(|target| {
        call!(SYS_unshare, libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
        mount_at(c"tmpfs", target, None)
    })
}
