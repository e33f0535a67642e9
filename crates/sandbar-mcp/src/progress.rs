//! What a tool says while it works, as progress notifications.

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{jsonrpc::notification, version::Version};

/// The progress of one request whose sender wants to hear of it.
#[derive(Debug)]
pub(crate) struct Progress {
    token: Value,
    version: Version,
    outgoing: mpsc::Sender<Value>,
    told: u64,
}

impl Progress {
    pub(crate) fn new(token: Value, version: Version, outgoing: mpsc::Sender<Value>) -> Self {
        Self { token, version, outgoing, told: 0 }
    }

    /// Waits while the client is slow to read: the host drops progress then, and never the answer.
    pub(crate) async fn tell(&mut self, said: &str) {
        // It has to grow, and nobody knows how far it will: it counts the notifications.
        self.told += 1;
        let mut params = json!({"progressToken": self.token, "progress": self.told});
        if self.version.has_annotations() {
            params["message"] = said.into();
        }
        // A client that is gone cancels the call by itself.
        let _ = self.outgoing.send(notification("notifications/progress", &params)).await;
    }
}
