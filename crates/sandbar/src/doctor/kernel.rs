//! Probes of kernel features and privileges.

use std::{fs, path::Path};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
    mount::{MountFlags, mount},
};

use super::{
    Finding,
    scratch::{directory_in, in_private_mounts},
    syscall,
};
use crate::local_host::oom_score;

pub(crate) fn privileges() -> Finding {
    const NAME: &str = "privileges";
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return Finding::ok(NAME, "running as root");
    }
    Finding::missing(
        NAME,
        format!(
            "running as uid {}: only `local-disk` storage without layers is possible",
            uid.as_raw()
        ),
        "run `sudo sandbar up`",
    )
}

pub(crate) fn mount_namespace() -> Finding {
    const NAME: &str = "mounts";
    match in_private_mounts(|| Ok(())) {
        Ok(()) => Finding::ok(NAME, "a private mount namespace was created"),
        Err(why) => Finding::missing(
            NAME,
            why,
            "run as root, or give the container CAP_SYS_ADMIN",
        ),
    }
}

pub(crate) fn overlayfs() -> Finding {
    const NAME: &str = "overlayfs";
    match in_private_mounts(|| mount_overlay().map_err(|error| error.to_string())) {
        Ok(()) => Finding::ok(NAME, "an overlay was mounted: sandboxes share their base"),
        Err(why) => Finding::missing(
            NAME,
            format!("an overlay could not be mounted: {why}"),
            "run as root on a kernel with overlayfs (`modprobe overlay`)",
        ),
    }
}

fn mount_overlay() -> std::io::Result<()> {
    let scratch = directory_in(&std::env::temp_dir())?;
    let root = scratch.path();
    // The upper directory needs a file system with extended attributes; tmpfs is always available.
    mount("tmpfs", root, "tmpfs", MountFlags::empty(), None)?;
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(root.join(name))?;
    }
    let path = |name: &str| root.join(name).to_string_lossy().into_owned();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        path("lower"),
        path("upper"),
        path("work")
    );
    let options = std::ffi::CString::new(options)?;
    mount(
        "overlay",
        root.join("merged"),
        "overlay",
        MountFlags::empty(),
        options.as_c_str(),
    )?;
    rustix::mount::unmount(root.join("merged"), rustix::mount::UnmountFlags::DETACH)?;
    rustix::mount::unmount(root, rustix::mount::UnmountFlags::DETACH)?;
    Ok(())
}

pub(crate) fn user_namespaces() -> Finding {
    const NAME: &str = "userns";
    match syscall::child_in_user_namespace() {
        Ok(()) => Finding::ok(NAME, "a user namespace was created"),
        Err(error) => Finding::missing(
            NAME,
            format!("a user namespace could not be created: {error}"),
            "sysctl -w user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1",
        ),
    }
}

pub(crate) fn cgroups() -> Finding {
    const NAME: &str = "cgroups";
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of_type = |wanted: &str| -> Vec<String> {
        mounts
            .lines()
            .filter_map(|line| {
                let (before, after) = line.split_once(" - ")?;
                (after.split(' ').next() == Some(wanted))
                    .then(|| before.split(' ').nth(4).map(str::to_owned))?
            })
            .collect()
    };
    let (unified, legacy) = (of_type("cgroup2"), of_type("cgroup"));
    let Some(root) = unified.first() else {
        return Finding::missing(
            NAME,
            "cgroup v2 is not mounted",
            "mount -t cgroup2 none /sys/fs/cgroup",
        );
    };
    let group = Path::new(root).join(format!("sandbar-doctor-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&group).and_then(|()| fs::remove_dir(&group)) {
        return Finding::missing(
            NAME,
            format!("no group can be created in `{root}`: {error}"),
            "run as root, or have a cgroup subtree delegated to you",
        );
    }
    let layout = if legacy.is_empty() {
        "v2".to_owned()
    } else {
        format!("hybrid, {} v1 hierarchies", legacy.len())
    };
    Finding::ok(NAME, format!("a group was created in `{root}` ({layout})"))
}

/// Probes by lowering the score of this process, which is about to end.
pub(crate) fn oom_score() -> Finding {
    const NAME: &str = "oom-score";
    match oom_score::lower() {
        Ok(()) => Finding::ok(
            NAME,
            "a host is the last process the kernel kills for memory",
        ),
        Err(error) => Finding::missing(
            NAME,
            format!(
                "oom_score_adj could not be lowered: {error}; sandboxes still have a higher one"
            ),
            "run as root with CAP_SYS_RESOURCE, or set `OOMScoreAdjust=-900` in the systemd unit",
        ),
    }
}

pub(crate) fn landlock() -> Finding {
    const NAME: &str = "landlock";
    match syscall::landlock_version() {
        Ok(version) => Finding::ok(NAME, format!("ABI {version}")),
        Err(error) => Finding::missing(
            NAME,
            format!("Landlock is not available: {error}"),
            "boot a kernel with `landlock` in its `lsm=` list",
        ),
    }
}

pub(crate) fn openat2() -> Finding {
    const NAME: &str = "openat2";
    match rustix::fs::openat2(
        CWD,
        "/",
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT,
    ) {
        Ok(_) => Finding::ok(
            NAME,
            "paths are resolved inside a sandbox (RESOLVE_IN_ROOT)",
        ),
        Err(error) => Finding::missing(NAME, reason(error), "use Linux 5.6 or newer"),
    }
}

fn reason(error: Errno) -> String {
    std::io::Error::from(error).to_string()
}
