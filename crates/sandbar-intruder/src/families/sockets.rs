//! Listening sockets outside the box.

use std::{
    fs, io,
    net::{SocketAddr, TcpStream},
    os::{
        fd::{AsRawFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixStream},
    },
    time::Duration,
};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, descriptor},
    facts::Facts,
    verdict::{Outcome, escaped, held, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "sockets",
    attempts: &[
        Attempt::new(
            "socket-abstract",
            "connects to an abstract socket of the host; escaped when the connection succeeds",
            |facts| {
                refused(
                    connect_abstract(facts.text("abstract-socket")?),
                    "connected",
                )
            },
        ),
        Attempt::new(
            "socket-control",
            "connects to an abstract socket with a `runsc` control name; escaped when the connection succeeds",
            |facts| refused(connect_abstract(facts.text("control-socket")?), "connected"),
        ),
        Attempt::new(
            "socket-control-listed",
            "connects to every abstract socket of a container runtime in /proc/net/unix; escaped when a connection succeeds",
            listed_control_sockets,
        ),
        Attempt::new(
            "socket-path",
            "connects to a socket of the host by its path; escaped when a connection succeeds",
            socket_by_path,
        ),
        Attempt::new(
            "socket-take-descriptor",
            "receives a descriptor from a host process over an abstract socket; escaped when the connection succeeds",
            take_descriptor,
        ),
        Attempt::new(
            "socket-datagram",
            "sends a datagram to an abstract socket of the host; escaped when the call succeeds",
            datagram,
        ),
        Attempt::new(
            "socket-loopback",
            "connects to a TCP port on the loopback interface of the host; escaped when the connection succeeds",
            loopback,
        ),
        Attempt::new(
            "socket-listed",
            "searches /proc/net/unix for a socket of the host; escaped when it is listed",
            |facts| listed("/proc/net/unix", facts.text("abstract-socket")?),
        ),
        Attempt::new(
            "socket-port-listed",
            "searches /proc/net/tcp for a port of the host; escaped when it is listed",
            |facts| {
                // 127.0.0.1 in the byte order the kernel prints.
                listed(
                    "/proc/net/tcp",
                    &format!("0100007F:{:04X}", facts.number("port")?),
                )
            },
        ),
        Attempt::new(
            "socket-listed-by-netlink",
            "lists all unix sockets with sock_diag; escaped when a socket of the host is listed",
            netlink_list,
        ),
    ],
};

fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&UnixAddress::from_abstract_name(name)?)
}

fn listed_control_sockets(_: &Facts) -> Outcome {
    let list = match fs::read_to_string("/proc/net/unix") {
        Ok(list) => list,
        Err(error) => return held(error),
    };
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().last()?.strip_prefix('@'));
    let runtimes = ["runsc", "containerd", "docker", "shim", "sandbar"];
    for name in names.filter(|name| runtimes.iter().any(|runtime| name.contains(runtime))) {
        if connect_abstract(name).is_ok() {
            return escaped(format!("connected to {name}"));
        }
    }
    held("no listed control socket accepts a connection")
}

fn socket_by_path(facts: &Facts) -> Outcome {
    let path = facts.text("socket")?;
    let mut last = String::new();
    for path in [path.to_owned(), format!("/proc/1/root{path}")] {
        match UnixStream::connect(&path) {
            Ok(_) => return escaped(format!("connected to {path}")),
            Err(error) => last = error.to_string(),
        }
    }
    held(last)
}

/// `struct msghdr`.
#[repr(C)]
struct Message {
    name: usize,
    name_length: usize,
    vectors: usize,
    vector_count: usize,
    control: usize,
    control_length: usize,
    flags: usize,
}

/// `struct cmsghdr` and one descriptor.
#[repr(C)]
#[derive(Default)]
struct Passed {
    length: usize,
    level: i32,
    kind: i32,
    descriptor: i32,
    padding: i32,
}

fn take_descriptor(facts: &Facts) -> Outcome {
    let stream = match connect_abstract(facts.text("abstract-socket")?) {
        Ok(stream) => stream,
        Err(error) => return held(error),
    };
    let mut byte = [0_u8; 1];
    let vector = [byte.as_mut_ptr().expose_provenance(), 1];
    let mut passed = Passed {
        descriptor: -1,
        ..Passed::default()
    };
    let mut message = Message {
        name: 0,
        name_length: 0,
        vectors: vector.as_ptr().expose_provenance(),
        vector_count: 1,
        control: (&raw mut passed).expose_provenance(),
        control_length: size_of::<Passed>(),
        flags: 0,
    };
    call!(
        SYS_recvmsg,
        stream.as_raw_fd(),
        Argument::write(&mut message),
        libc::MSG_CMSG_CLOEXEC
    )?;
    if passed.level == libc::SOL_SOCKET && passed.kind == libc::SCM_RIGHTS && passed.descriptor >= 0
    {
        return escaped(format!(
            "received descriptor {} of the host",
            passed.descriptor
        ));
    }
    escaped("connected, without receiving a descriptor")
}

fn datagram(facts: &Facts) -> Outcome {
    let address = UnixAddress::from_abstract_name(facts.text("datagram-socket")?)?;
    refused(
        UnixDatagram::unbound()?.send_to_addr(b"", &address),
        "datagram sent",
    )
}

fn loopback(facts: &Facts) -> Outcome {
    let port = u16::try_from(facts.number("port")?).map_err(io::Error::other)?;
    let connected = TcpStream::connect_timeout(
        &SocketAddr::from(([127, 0, 0, 1], port)),
        Duration::from_secs(10),
    );
    refused(connected, "connected")
}

fn listed(path: &str, text: &str) -> Outcome {
    match fs::read_to_string(path) {
        Ok(list) if list.contains(text) => escaped("socket is listed"),
        Ok(_) => held("socket is not listed"),
        Err(error) => held(error),
    }
}

fn netlink_list(facts: &Facts) -> Outcome {
    const SOCK_DIAG: i32 = 4;
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const SHOW_NAME: u32 = 1;
    let name = facts.text("abstract-socket")?.as_bytes();
    let socket: OwnedFd = match descriptor(call!(
        SYS_socket,
        libc::AF_NETLINK,
        libc::SOCK_RAW,
        SOCK_DIAG
    )) {
        Ok(socket) => socket,
        Err(error) => return held(error),
    };
    let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_DUMP).map_err(io::Error::other)?;
    let mut request = Vec::new();
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend([0; 8]);
    // Family, protocol and padding; then all states, any inode, names wanted, no cookie.
    request.extend([1, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    request.extend(SHOW_NAME.to_ne_bytes());
    request.extend([0; 8]);
    let length = request.len();
    if let Err(error) = call!(
        SYS_sendto,
        &socket,
        Argument::read(request.as_slice()),
        length,
        0,
        Argument::NULL,
        0
    ) {
        return held(error);
    }
    let mut answer = vec![0_u8; 1 << 20];
    let room = answer.len();
    loop {
        let received = call!(
            SYS_recvfrom,
            &socket,
            Argument::write(answer.as_mut_slice()),
            room,
            libc::MSG_DONTWAIT,
            Argument::NULL,
            Argument::NULL
        );
        match received {
            Ok(length)
                if answer[..length]
                    .windows(name.len())
                    .any(|window| window == name) =>
            {
                return escaped("socket is listed");
            }
            Ok(_) => {}
            Err(_) => return held("socket is not listed"),
        }
    }
}
