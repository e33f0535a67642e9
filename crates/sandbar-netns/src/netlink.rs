//! Netlink messages to the kernel.
//!
//! The kernel processes a message before `send` returns, so its answer can be read without
//! blocking.

#![expect(unsafe_code, reason = "netlink sockets have no safe wrapper")]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

/// Alignment of messages and attributes.
const ALIGNMENT: usize = 4;
const MESSAGE_HEADER: usize = 16;
const NESTED: u16 = 0x8000;

/// Batch of netlink messages.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    count: u32,
}

impl Messages {
    /// Adds a request. `header` is the header of its kind; `fill` adds attributes.
    pub(crate) fn add(
        &mut self,
        kind: u16,
        flags: i32,
        header: &[u8],
        fill: impl FnOnce(&mut Attributes<'_>),
    ) {
        let start = self.bytes.len();
        self.count += 1;
        self.bytes.extend(0_u32.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(
            u16::try_from(flags | libc::NLM_F_REQUEST)
                .unwrap_or_default()
                .to_ne_bytes(),
        );
        self.bytes.extend(self.count.to_ne_bytes());
        self.bytes.extend(0_u32.to_ne_bytes());
        self.bytes.extend(header);
        fill(&mut Attributes {
            bytes: &mut self.bytes,
        });
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }
}

/// Attributes of a message, or of a nested attribute.
#[derive(Debug)]
pub(crate) struct Attributes<'a> {
    bytes: &'a mut Vec<u8>,
}

impl Attributes<'_> {
    pub(crate) fn add(&mut self, kind: u16, value: &[u8]) {
        self.write(kind, |bytes| bytes.extend(value));
    }

    pub(crate) fn add_text(&mut self, kind: u16, value: &str) {
        self.write(kind, |bytes| {
            bytes.extend(value.as_bytes());
            bytes.push(0);
        });
    }

    /// Adds a nested attribute.
    pub(crate) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes<'_>)) {
        self.nest_after(kind, &[], fill);
    }

    /// Adds a nested attribute with a header.
    pub(crate) fn nest_after(
        &mut self,
        kind: u16,
        header: &[u8],
        fill: impl FnOnce(&mut Attributes<'_>),
    ) {
        self.write(kind | NESTED, |bytes| {
            bytes.extend(header);
            fill(&mut Attributes { bytes });
        });
    }

    fn write(&mut self, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        fill(self.bytes);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes
            .resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

/// Netlink socket, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub(crate) fn open(protocol: i32) -> io::Result<Self> {
        // SAFETY: creates a descriptor.
        let socket = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                protocol,
            )
        };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just created, and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        Ok(Self { socket })
    }

    /// Sends the batch, and reads answers until `acknowledged` messages are acknowledged or one has
    /// failed.
    pub(crate) fn send(&self, messages: &Messages, acknowledged: usize) -> io::Result<()> {
        let bytes = &messages.bytes;
        // SAFETY: the buffer has the given length. Without an address it goes to the kernel.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                0,
            )
        };
        if usize::try_from(sent) != Ok(bytes.len()) {
            return Err(io::Error::last_os_error());
        }
        let mut answered = 0;
        while answered < acknowledged {
            answered += self.receive()?;
        }
        Ok(())
    }

    /// Receives one datagram and counts its acknowledgements.
    fn receive(&self) -> io::Result<usize> {
        let mut buffer = [0_u8; 8192];
        // SAFETY: the buffer has the given length.
        let received = unsafe {
            libc::recv(
                self.socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT,
            )
        };
        let Ok(received) = usize::try_from(received) else {
            return Err(io::Error::last_os_error());
        };
        acknowledgements(&buffer[..received])
    }
}

/// Counts the acknowledgements in one datagram. Fails with the first error in it.
pub(crate) fn acknowledgements(mut datagram: &[u8]) -> io::Result<usize> {
    let mut count = 0;
    while let Some((kind, body, next)) = split(datagram) {
        if i32::from(kind) == libc::NLMSG_ERROR {
            match body.first_chunk().copied().map(i32::from_ne_bytes) {
                Some(0) => count += 1,
                Some(errno) => return Err(io::Error::from_raw_os_error(errno.saturating_neg())),
                None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        datagram = next;
    }
    Ok(count)
}

/// Splits off the first message. Returns its kind, its body and the rest.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(MESSAGE_HEADER..length)?;
    let next = length.next_multiple_of(ALIGNMENT).min(bytes.len());
    Some((kind, body, &bytes[next..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(errno: i32) -> Vec<u8> {
        let mut messages = Messages::default();
        messages.add(2, 0, &errno.to_ne_bytes(), |_| ());
        messages.bytes
    }

    #[test]
    fn acknowledgements_with_an_error_return_it() {
        let accepted = [answer(0), answer(0)].concat();
        assert_eq!(acknowledgements(&accepted).unwrap(), 2);
        let refused = acknowledgements(&[accepted, answer(-17)].concat()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(17));
    }

    #[test]
    fn out_of_range_errno_is_an_error() {
        assert!(acknowledgements(&answer(i32::MIN)).is_err());
        assert!(acknowledgements(&answer(5)).is_err());
    }
}
