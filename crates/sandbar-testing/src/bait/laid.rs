//! One secret in every place an intruder might look.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    mount::{MountFlags, mount},
    thread::{UnshareFlags, unshare_unsafe},
};
use sandbar_core::SessionId;

use super::{HostState, calls, listener::Listener};
use crate::{private_mounts, tree};

/// Path of the shared file, on a tmpfs of the test.
const SHARED: &str = "/dev/shm/sandbar-test-secret";

/// Things of the host, all within reach of a process that is not in a box. They go with the test.
#[derive(Debug)]
pub struct Bait {
    secret: String,
    key: i64,
    segment: i64,
    process: Child,
    port: TcpListener,
    _sockets: [Listener; 2],
    _socket: UnixListener,
    _datagrams: UnixDatagram,
    /// Open in this process and not marked close-on-exec, as a careless library would leave them.
    _descriptors: [OwnedFd; 3],
    directory: tree::Scratch,
}

impl Bait {
    /// Moves the calling thread into mount and IPC namespaces of its own, lays the bait there, and
    /// puts the secret into the environment of this process. To be called before other threads
    /// start what is to be tested.
    pub fn lay() -> Self {
        private_mounts();
        leave_ipc_namespace();
        mount(
            "tmpfs",
            "/dev/shm",
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            None,
        )
        .unwrap();
        let secret = format!("secret-{}", SessionId::random());
        let directory = tree::scratch();
        // Nothing here is kept by its mode: it is the box that has to keep it.
        tree::set_mode(directory.path(), 0o755);
        fs::write(directory.path().join("file"), &secret).unwrap();
        fs::write(SHARED, &secret).unwrap();
        calls::set_variable("SANDBAR_TEST_SECRET", &secret);
        calls::make_queue(&queue(&secret)).unwrap();
        let socket = UnixListener::bind(directory.path().join("socket")).unwrap();
        tree::set_mode(&directory.path().join("socket"), 0o777);
        let process = Command::new("cat")
            .env("SANDBAR_TEST_SECRET", &secret)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let open_directory = || OwnedFd::from(File::open(directory.path()).unwrap());
        let names = [abstract_socket(&secret), control_socket(&secret)];
        let descriptors = [
            open_directory(),
            File::create(directory.path().join("leaked"))
                .unwrap()
                .into(),
            UnixStream::pair().unwrap().0.into(),
        ];
        for descriptor in &descriptors {
            fcntl_setfd(descriptor, FdFlags::empty()).unwrap();
        }
        Self {
            key: calls::add_key(&key_name(&secret), &secret).unwrap(),
            segment: calls::share_memory(&secret).unwrap(),
            process,
            port: TcpListener::bind("127.0.0.1:0").unwrap(),
            _sockets: names.map(|name| Listener::new(&name, open_directory())),
            _socket: socket,
            _datagrams: UnixDatagram::bind_addr(
                &SocketAddr::from_abstract_name(datagrams(&secret)).unwrap(),
            )
            .unwrap(),
            _descriptors: descriptors,
            secret,
            directory,
        }
    }

    /// Arguments about it for the intruder.
    pub fn facts(&self) -> Vec<String> {
        let secret = &self.secret;
        vec![
            format!("secret={secret}"),
            format!("host-file={}", self.file().display()),
            format!("shared-file={SHARED}"),
            format!("host-pid={}", self.process.id()),
            format!("abstract-socket={}", abstract_socket(secret)),
            format!("datagram-socket={}", datagrams(secret)),
            format!("control-socket={}", control_socket(secret)),
            format!("socket={}", self.directory.path().join("socket").display()),
            format!("port={}", self.port.local_addr().unwrap().port()),
            format!("key={}", self.key),
            format!("key-name={}", key_name(secret)),
            format!("segment={}", self.segment),
            format!("queue={}", queue(secret)),
        ]
    }

    /// The state of the host now.
    pub fn host_state(&mut self) -> HostState {
        let process_runs = matches!(self.process.try_wait(), Ok(None));
        HostState::read(&[&self.file(), Path::new(SHARED)], process_runs)
    }

    /// A directory of the test that every user may read.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("file")
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn abstract_socket(secret: &str) -> String {
    format!("sandbar-test-{secret}")
}

fn datagrams(secret: &str) -> String {
    format!("sandbar-test-datagrams-{secret}")
}

/// As `runsc` names the socket it takes orders on.
fn control_socket(secret: &str) -> String {
    format!("runsc-sandbox.{secret}")
}

fn key_name(secret: &str) -> String {
    format!("sandbar-test:{secret}")
}

fn queue(secret: &str) -> String {
    format!("/sandbar-test-{secret}")
}

#[expect(unsafe_code, reason = "unshare can break what other threads rely on")]
fn leave_ipc_namespace() {
    // SAFETY: an IPC namespace changes no descriptors and no memory.
    unsafe { unshare_unsafe(UnshareFlags::NEWIPC) }.unwrap();
}
