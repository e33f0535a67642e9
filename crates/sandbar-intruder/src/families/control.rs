//! What holds the box: its cgroups, and the ways its runtime talks to it.

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
            "looks for a cgroup to move to; escaped when it may write one's processes",
            |_| writable_in_cgroups(|name| name == "cgroup.procs" || name == "tasks"),
        ),
        Attempt::new("cgroup-limits", "looks for limits to change; escaped when it may write one", |_| {
            writable_in_cgroups(|name| {
                let prefixes = ["memory.", "pids.", "cpu.", "cpuset.", "io.", "blkio.", "devices.", "freezer."];
                prefixes.iter().any(|prefix| name.starts_with(prefix))
            })
        }),
        Attempt::new("cgroup-release-agent", "looks for a release agent to set; escaped when it may write one", |_| {
            writable_in_cgroups(|name| name == "release_agent" || name == "notify_on_release")
        }),
        Attempt::new("cgroup-make", "makes a cgroup; escaped when the kernel makes one", make_cgroup),
        Attempt::new(
            "cgroup-path",
            "asks where it is in the tree of cgroups; escaped when it learns of the host's",
            |_| cgroup_path(),
        ),
        Attempt::new(
            "control-pipes",
            "opens pipes and sockets in the tree that it did not make; escaped when one opens for writing",
            control_pipes,
        ),
    ],
};

const CGROUPS: &str = "/sys/fs/cgroup";

fn writable_in_cgroups(wanted: impl Fn(&str) -> bool) -> Outcome {
    let named = |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted);
    match find_writable(Path::new(CGROUPS), 6, named) {
        Found::Nothing(looked) => held(format!("none of {looked} files")),
        Found::Writable(path) => escaped(format!("may write {}", path.display())),
    }
}

fn make_cgroup(_: &Facts) -> Outcome {
    let mut places = vec![PathBuf::from(CGROUPS)];
    places.extend(fs::read_dir(CGROUPS).into_iter().flatten().flatten().map(|entry| entry.path()));
    let mut last = String::new();
    for place in places {
        let group = place.join(format!("sandbar-intruder-{}", std::process::id()));
        match fs::create_dir(&group) {
            Ok(()) => {
                let _ = fs::remove_dir(&group);
                return escaped(format!("made {}", group.display()));
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
    // A command has a group of its own right below the root the box sees; anything longer is the host's.
    let is_foreign = |path: &&str| path.contains("..") || path.matches('/').count() > 1;
    match groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).find(is_foreign) {
        Some(path) => escaped(path),
        None => held("at the root of every tree, or right below it"),
    }
}

fn control_pipes(_: &Facts) -> Outcome {
    let mut opened = None;
    let looked = find(Path::new("/"), 4, |path| {
        let elsewhere = ["/proc", "/sys"].iter().any(|place| path.starts_with(place));
        if elsewhere {
            return false;
        }
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        let kind = metadata.file_type();
        // Without waiting for a reader: ENXIO says that there is none.
        let pipe = kind.is_fifo() && open(path, libc::O_RDWR | libc::O_NONBLOCK).is_ok();
        let socket = kind.is_socket() && std::os::unix::net::UnixStream::connect(path).is_ok();
        if pipe || socket {
            opened = Some(path.to_owned());
        }
        opened.is_some()
    });
    match opened {
        Some(path) => escaped(format!("opened {}", path.display())),
        None if looked == 0 => Err(Inconclusive("the tree is empty".to_owned())),
        None => held(format!("none among {looked} entries")),
    }
}
