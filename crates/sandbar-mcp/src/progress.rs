//! Output of a running tool as progress notifications.

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken, ProtocolVersion},
};

use crate::version::has_annotations;

/// Progress of one request whose sender asked for it.
#[derive(Debug)]
pub(crate) struct Progress {
    token: ProgressToken,
    with_messages: bool,
    peer: Peer<RoleServer>,
    sent: u32,
}

impl Progress {
    pub(crate) fn new(token: ProgressToken, version: &ProtocolVersion, peer: Peer<RoleServer>) -> Self {
        Self { token, with_messages: has_annotations(version), peer, sent: 0 }
    }

    /// Waits while the client is slow to read: the host drops progress then, and never the answer.
    pub(crate) async fn tell(&mut self, said: &str) {
        // It has to grow, and how far it will is not known: it counts the notifications.
        self.sent += 1;
        let mut params = ProgressNotificationParam::new(self.token.clone(), self.sent.into());
        if self.with_messages {
            params = params.with_message(said);
        }
        // A client that is gone cancels the call by itself.
        let _ = self.peer.notify_progress(params).await;
    }
}
