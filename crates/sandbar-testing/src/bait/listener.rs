//! An abstract socket that sends a descriptor to every peer.

use std::{
    io::IoSlice,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

#[derive(Debug)]
pub(super) struct Listener {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn new(name: &str, handed_out: OwnedFd) -> Self {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let closing = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let closing = Arc::clone(&closing);
            move || {
                while let Ok((stream, _)) = listener.accept() {
                    if closing.load(Ordering::Acquire) {
                        return;
                    }
                    hand_out(&stream, &handed_out);
                }
            }
        });
        Self {
            address,
            closing,
            thread: Some(thread),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // The thread waits in `accept`; a connection ends it.
        let _ = UnixStream::connect_addr(&self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A peer that has closed already gets nothing.
fn hand_out(stream: &UnixStream, descriptor: &OwnedFd) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let _ = sendmsg(
        stream,
        &[IoSlice::new(b"x")],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    );
}
