//! State messages to a service manager, as sd_notify(3) defines them.
//!
//! With `Type=notify` systemd starts dependent units once the host accepts connections, not once
//! its process exists.

use std::{
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

use crate::env_vars;

/// The host accepts connections.
pub(crate) const READY: &str = "READY=1";
/// The host has begun to shut down.
pub(crate) const STOPPING: &str = "STOPPING=1";

/// Sends `state` to the service manager that started this process. Does nothing when there is
/// none; a message that cannot be delivered is logged, because the host works without it.
pub(crate) fn notify(state: &str) {
    let Some(socket) = std::env::var_os(env_vars::NOTIFY_SOCKET) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(
            "service manager not notified of {state} on {}: {error}",
            socket.display()
        );
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(socket)?,
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "NOTIFY_SOCKET is neither an absolute path nor an abstract socket name",
            ));
        }
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn state_reaches_a_socket_given_by_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), READY).unwrap();
        assert_eq!(received(&socket), "READY=1");
    }

    #[test]
    fn state_reaches_an_abstract_socket() {
        let name = format!("sandbar-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), STOPPING).unwrap();
        assert_eq!(received(&socket), "STOPPING=1");
    }

    #[test]
    fn relative_socket_path_is_refused() {
        let error = send(OsStr::new("notify"), READY).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
