//! Cgroups of the box, and control channels of its runtime.

use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use crate::{
    attempt::{Attempt, Family},
    call::open,
    facts::Facts,
    verdict::{Inconclusive, Outcome, escaped, held},
    walk::{Found, find, find_writable},
};

pub(crate) const FAMILY: Family = Family {
    name: "control",
    attempts: &[
        Attempt::new(
            "cgroup-leave",
            "searches for a writable `cgroup.procs` or `tasks`; escaped when there is one",
            |_| writable_in_cgroups(|name| name == "cgroup.procs" || name == "tasks"),
        ),
        Attempt::new(
            "cgroup-limits",
            "searches for a writable controller file of a cgroup; escaped when there is one",
            |_| {
                writable_in_cgroups(|name| {
                    let prefixes = [
                        "memory.", "pids.", "cpu.", "cpuset.", "io.", "blkio.", "devices.",
                        "freezer.",
                    ];
                    prefixes.iter().any(|prefix| name.starts_with(prefix))
                })
            },
        ),
        Attempt::new(
            "cgroup-release-agent",
            "searches for a writable `release_agent` or `notify_on_release`; escaped when there is one",
            |_| writable_in_cgroups(|name| name == "release_agent" || name == "notify_on_release"),
        ),
        Attempt::new(
            "cgroup-make",
            "creates a cgroup; escaped when the call succeeds",
            make_cgroup,
        ),
        Attempt::new(
            "cgroup-path",
            "reads its cgroup path; escaped when the path shows a cgroup of the host",
            |_| cgroup_path(),
        ),
        Attempt::new(
            "control-pipes",
            "opens named pipes and sockets in the root file system; escaped when one opens",
            control_pipes,
        ),
    ],
};

const CGROUPS: &str = "/sys/fs/cgroup";

fn writable_in_cgroups(wanted: impl Fn(&str) -> bool) -> Outcome {
    let named = |path: &Path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(&wanted)
    };
    match find_writable(Path::new(CGROUPS), 6, named) {
        Found::Nothing(looked) => held(format!("no writable file among {looked} entries")),
        Found::Writable(path) => escaped(format!("{} is writable", path.display())),
    }
}

fn make_cgroup(_: &Facts) -> Outcome {
    let mut places = vec![PathBuf::from(CGROUPS)];
    places.extend(
        fs::read_dir(CGROUPS)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path()),
    );
    let mut last = String::new();
    for place in places {
        let group = place.join(format!("sandbar-intruder-{}", std::process::id()));
        match fs::create_dir(&group) {
            Ok(()) => {
                let _ = fs::remove_dir(&group);
                return escaped(format!("created {}", group.display()));
            }
            Err(error) => last = error.to_string(),
        }
    }
    held(last)
}

fn cgroup_path() -> Outcome {
    let groups = match fs::read_to_string("/proc/self/cgroup") {
        Ok(groups) => groups,
        Err(error) => return held(error),
    };
    // A command has its own cgroup directly below the root of the cgroup namespace; a longer path
    // belongs to the host.
    let is_foreign = |path: &&str| path.contains("..") || path.matches('/').count() > 1;
    match groups
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .find(is_foreign)
    {
        Some(path) => escaped(format!("cgroup path {path}")),
        None => held("every path is the root of its hierarchy or its child"),
    }
}

fn control_pipes(_: &Facts) -> Outcome {
    let mut opened = None;
    let looked = find(Path::new("/"), 4, |path| {
        let elsewhere = ["/proc", "/sys"]
            .iter()
            .any(|place| path.starts_with(place));
        if elsewhere {
            return false;
        }
        let Ok(metadata) = fs::symlink_metadata(path) else {
            return false;
        };
        let kind = metadata.file_type();
        // Does not block when the pipe has no reader.
        let pipe = kind.is_fifo() && open(path, libc::O_RDWR | libc::O_NONBLOCK).is_ok();
        let socket = kind.is_socket() && std::os::unix::net::UnixStream::connect(path).is_ok();
        if pipe || socket {
            opened = Some(path.to_owned());
        }
        opened.is_some()
    });
    match opened {
        Some(path) => escaped(format!("opened {}", path.display())),
        None if looked == 0 => Err(Inconclusive("no entry below / is readable".to_owned())),
        None => held(format!("no pipe or socket opens among {looked} entries")),
    }
}
