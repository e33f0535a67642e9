//! Two network namespaces and the wire between them.

use std::{
    fs::File,
    io::Write,
    os::fd::{AsFd, AsRawFd},
    process::{Command, Stdio},
    thread,
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The host's end of the wire and its public address. Neighbour entries are static: discovery takes
/// seconds if its first packet is lost.
const HOST: &str = "\
link set lo up
link set wire addrgenmode none up
address add 10.65.0.2/30 dev wire
address add 203.0.113.200/32 dev wire
address add fd00:65::2/64 dev wire nodad
address add 2001:db8:200::200/128 dev wire nodad
neighbour add 10.65.0.1 lladdr 02:00:00:00:00:01 dev wire nud permanent
neighbour add fd00:65::1 lladdr 02:00:00:00:00:01 dev wire nud permanent
route add default via 10.65.0.1 src 203.0.113.200
route add ::/0 via fd00:65::1 src 2001:db8:200::200
";

/// Whole ranges are addresses of the internet, so that servers may take any of them; IPv6 wants
/// each one named.
const INTERNET: &str = "\
link set lo up
link set wire addrgenmode none up
address add 10.65.0.1/30 dev wire
address add fd00:65::1/64 dev wire nodad
neighbour add 10.65.0.2 lladdr 02:00:00:00:00:02 dev wire nud permanent
neighbour add fd00:65::2 lladdr 02:00:00:00:00:02 dev wire nud permanent
route add 203.0.113.200/32 via 10.65.0.2
route add 2001:db8:200::200/128 via fd00:65::2
route add local 203.0.113.0/25 dev lo
route add local 198.51.100.0/24 dev lo
route add local 192.0.2.0/24 dev lo
route add local 10.66.0.0/16 dev lo
route add local 169.254.169.254/32 dev lo
address add 2001:db8::10/128 dev lo nodad
address add 2001:db8:bad::66/128 dev lo nodad
";

/// A network namespace that exists as long as this handle.
#[derive(Debug)]
pub(super) struct Namespace(File);

impl Namespace {
    pub(super) fn new() -> Self {
        let maker = thread::spawn(|| {
            leave();
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        Self(maker.join().unwrap())
    }

    /// Runs something in there, on a thread of its own. Sockets made there belong there, wherever
    /// they are used.
    pub(super) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap();
                work()
            });
            inside.join().unwrap()
        })
    }
}

/// Moves the calling thread to a new namespace and connects it with the internet.
pub(super) fn become_host_of(internet: &Namespace) {
    leave();
    let other_end = format!("/proc/{}/fd/{}", std::process::id(), internet.0.as_raw_fd());
    ip(&format!(
        "link add name wire address 02:00:00:00:00:02 type veth peer name wire address 02:00:00:00:00:01 netns {other_end}"
    ));
    internet.run(|| ip(INTERNET));
    ip(HOST);
}

/// Moves the calling thread, and every thread it starts from now on, into a network namespace that
/// has a loopback with these addresses on it, and nothing else.
pub fn private_loopback(addresses: &[&str]) {
    leave();
    let added = addresses
        .iter()
        .map(|address| format!("address add {address} dev lo\n"));
    ip(&format!("link set lo up\n{}", added.collect::<String>()));
}

#[expect(unsafe_code, reason = "unshare can break what other threads rely on")]
fn leave() {
    // SAFETY: a network namespace changes no descriptors and no memory; only this thread's view of
    // the network is replaced.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
}

fn ip(commands: &str) {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(commands.as_bytes())
        .unwrap();
    assert!(
        child.wait().unwrap().success(),
        "ip could not set up the network"
    );
}
