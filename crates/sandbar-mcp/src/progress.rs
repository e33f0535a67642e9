//! Output of a running tool as progress notifications.

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken, ProtocolVersion},
};

use crate::version::has_annotations;

/// Progress notifications of one request.
#[derive(Debug)]
pub(crate) struct Progress {
    token: ProgressToken,
    with_messages: bool,
    peer: Peer<RoleServer>,
    sent: u32,
}

impl Progress {
    pub(crate) fn new(
        token: ProgressToken,
        version: &ProtocolVersion,
        peer: Peer<RoleServer>,
    ) -> Self {
        Self {
            token,
            with_messages: has_annotations(version),
            peer,
            sent: 0,
        }
    }

    /// Sends one notification, and waits while the client does not read. Meanwhile the host drops
    /// progress, but never the result.
    pub(crate) async fn send(&mut self, output: &str) {
        // The value has to increase and the total is not known, so it counts notifications.
        self.sent += 1;
        let mut params = ProgressNotificationParam::new(self.token.clone(), self.sent.into());
        if self.with_messages {
            params = params.with_message(output);
        }
        // The call is cancelled when the client disconnects, so an error needs no handling here.
        let _ = self.peer.notify_progress(params).await;
    }
}
