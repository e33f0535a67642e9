//! A caller's handle on a tool call.

use sandbar_core::{Error, Result, ToolEvent, ToolProgress, ToolResponse};
use tokio::sync::{mpsc, watch};

use super::table::{Answer, Waiting};

/// A running tool call. It is cancelled when its last caller drops this before the answer.
#[derive(Debug)]
pub struct ToolExecution {
    answer: watch::Receiver<Option<Answer>>,
    progress: Option<mpsc::Receiver<ToolProgress>>,
    /// `None` once the answer was given.
    waiting: Option<Waiting>,
}

impl ToolExecution {
    pub(super) fn new(
        answer: watch::Receiver<Option<Answer>>,
        progress: Option<mpsc::Receiver<ToolProgress>>,
        waiting: Waiting,
    ) -> Self {
        Self {
            answer,
            progress,
            waiting: Some(waiting),
        }
    }

    /// Returns the next event: progress, then the answer or an error, then `None`. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Result<ToolEvent>> {
        if let Some(progress) = &mut self.progress {
            if let Some(item) = progress.recv().await {
                return Some(Ok(ToolEvent::Progress(item)));
            }
            self.progress = None;
        }
        self.waiting.as_ref()?;
        let answer = self.wait().await;
        self.waiting = None;
        Some(answer.map(ToolEvent::Finished))
    }

    /// Waits for the answer and discards progress.
    pub async fn answer(mut self) -> Result<ToolResponse> {
        self.wait().await
    }

    async fn wait(&mut self) -> Result<ToolResponse> {
        match self.answer.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(answer)) => match answer.as_ref() {
                Ok(response) => Ok(response.clone()),
                Err(error) => Err(copy(error)),
            },
            Ok(None) | Err(_) => Err(Error::internal("tool call ended without an answer")),
        }
    }
}

/// Copies an error for another caller.
fn copy(error: &Error) -> Error {
    let mut copy = Error::new(error.code(), error.chain());
    if let Some(field) = error.field() {
        copy = copy.with_field(field.to_owned());
    }
    match error.hint() {
        Some(hint) => copy.with_hint(hint),
        None => copy,
    }
}
