//! A probe: another session of the same host, on which calls are made one after the other all
//! the time.

use std::{
    io::Cursor,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use sandbar_client::Client;
use sandbar_core::{
    Error, ExecEvent, ExecSpec, MutexExt as _, Result, SessionId, ToolCallId, ToolParams,
    ToolRequest, WriteOptions,
};
use serde_json::json;
use tokio::{sync::watch, time::timeout};

/// Time after which a call of the probe counts as failed.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Failures after which the probe gives up.
const MAX_FAILURES: usize = 5;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Exec,
    ReadFile,
    ListDir,
}

impl Call {
    pub(crate) const ALL: [Self; 3] = [Self::Exec, Self::ReadFile, Self::ListDir];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::ReadFile => "read_file",
            Self::ListDir => "list_dir",
        }
    }
}

/// Latency of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) call: Call,
    pub(crate) took: Duration,
}

/// State shared with the thread of the probe.
#[derive(Debug, Default)]
struct Shared {
    is_stopped: AtomicBool,
    samples: Mutex<Vec<Sample>>,
    failures: Mutex<Vec<String>>,
}

/// Makes calls in a thread of its own until it is dropped.
#[derive(Debug)]
pub(crate) struct Probe {
    shared: Arc<Shared>,
    rounds: watch::Receiver<usize>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Probe {
    pub(crate) fn start(url: &str, token: &str, id: SessionId) -> Self {
        let shared = Arc::new(Shared::default());
        let (sender, rounds) = watch::channel(0);
        let (url, token) = (url.to_owned(), token.to_owned());
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                if let Err(error) = runtime.block_on(work(&shared, &sender, &url, &token, &id)) {
                    shared.failures.lock_unpoisoned().push(error.chain());
                }
            }
        });
        Self {
            shared,
            rounds,
            thread: Some(thread),
        }
    }

    /// Returns a counter of the rounds that have succeeded. It closes when the probe gives up.
    pub(crate) fn rounds(&self) -> watch::Receiver<usize> {
        self.rounds.clone()
    }

    /// Waits for this number of further rounds.
    pub(crate) async fn wait_for(&self, more: usize) -> std::result::Result<(), String> {
        wait_for(&self.rounds, more).await
    }

    pub(crate) fn take_samples(&self) -> Vec<Sample> {
        std::mem::take(&mut self.shared.samples.lock_unpoisoned())
    }

    pub(crate) fn take_failures(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.failures.lock_unpoisoned())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until a probe has made this number of further rounds.
pub(crate) async fn wait_for(
    rounds: &watch::Receiver<usize>,
    more: usize,
) -> std::result::Result<(), String> {
    let mut rounds = rounds.clone();
    let wanted = *rounds.borrow() + more;
    match timeout(3 * CALL_TIMEOUT, rounds.wait_for(|now| *now >= wanted)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err("the probe has given up".into()),
        Err(_) => Err("the probe is starved".into()),
    }
}

/// Makes calls until it is stopped or has failed too often.
async fn work(
    shared: &Shared,
    rounds: &watch::Sender<usize>,
    url: &str,
    token: &str,
    id: &SessionId,
) -> Result<()> {
    let client = Client::connect(url, Some(token)).await?;
    for number in 0..20 {
        let path = format!("/workspace/listed/file-{number}.txt");
        let text = Cursor::new("a line of the probe\n".repeat(50));
        let options = WriteOptions {
            create_dirs: true,
            ..WriteOptions::default()
        };
        client
            .write_file(id, Path::new(&path), options, text)
            .await?;
    }
    let mut failures = 0;
    let mut number = 0;
    while !shared.is_stopped.load(Ordering::Relaxed) && failures < MAX_FAILURES {
        let mut is_complete = true;
        for call in Call::ALL {
            number += 1;
            let began = Instant::now();
            let outcome = timeout(CALL_TIMEOUT, make(&client, id, call, number)).await;
            let took = began.elapsed();
            let failure = match outcome {
                Ok(Ok(())) => {
                    let mut samples = shared.samples.lock_unpoisoned();
                    samples.push(Sample { call, took });
                    continue;
                }
                Ok(Err(error)) => error.chain(),
                Err(_) => format!("no answer in {CALL_TIMEOUT:?}"),
            };
            let mut all = shared.failures.lock_unpoisoned();
            all.push(format!("{} after {took:?}: {failure}", call.as_str()));
            failures += 1;
            is_complete = false;
        }
        if is_complete {
            rounds.send_modify(|rounds| *rounds += 1);
        }
    }
    Ok(())
}

async fn make(client: &Client, id: &SessionId, call: Call, number: u64) -> Result<()> {
    let params = match call {
        Call::Exec => {
            let mut command = client.exec(id, ExecSpec::new(["true"])).await?;
            while let Some(event) = command.next_event().await? {
                if let ExecEvent::Exited(status) = event
                    && status.code != Some(0)
                {
                    return Err(Error::internal(format!("`true` ended with {status:?}")));
                }
            }
            return Ok(());
        }
        Call::ReadFile => json!({ "path": "listed/file-0.txt" }),
        Call::ListDir => json!({ "path": "listed" }),
    };
    let request = ToolRequest {
        tool: call.as_str().to_owned(),
        call: ToolCallId::new(format!("probe-{number}"))?,
        params: ToolParams::from_iter(params.as_object().cloned().unwrap_or_default()),
        resources: sandbar_core::Resources::default(),
    };
    let response = client.execute_tool(id, &request).await?;
    if response.is_error {
        return Err(Error::internal(response.content));
    }
    Ok(())
}
