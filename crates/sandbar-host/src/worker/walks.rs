//! Host side of the jobs: starts them within the limits of a session, and collects their answers.

use std::{
    ffi::CString,
    os::{fd::AsFd as _, unix::ffi::OsStrExt as _},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use sandbar_core::{
    ByteCount, Change, Error, ErrorCode, FileDetails, FileStat, Result, ToolParams, ToolProgress,
    ToolResponse,
};
use sandbar_runtime::{JobOrder, JobPart, RunningJob, Workers};
use sandbar_tools::{ToolContext, WalkRunner};
use sandbar_tree::SessionTree;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::messages::{End, Envelope, Part, Request, decode, encode};
use crate::{blocking::blocking, engine::Engine};

/// Jobs of all sessions that run at a time. Others wait. Exports do not count: they last as long as
/// their readers, and are bounded with the other streams of a session.
const MAX_JOBS: usize = 32;

/// Jobs of one session that run at a time. Others wait. Exports do not count.
const MAX_SESSION_JOBS: usize = 4;

/// Memory of one job, besides that of the program.
const JOB_MEMORY: ByteCount = ByteCount::mib(256);

/// Time by which the limit of a job exceeds that of its tool, so that the tool itself reports it.
const TIME_MARGIN: Duration = Duration::from_secs(1);

/// Limit of an export, which ends with its reader or its session.
const EXPORT_TIME: Duration = Duration::from_hours(24);

/// Limit on the names, targets and attributes that one answer holds.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The worker server of a host, and the number of its jobs.
#[derive(Debug)]
pub(crate) struct Walks {
    workers: Workers,
    slots: Arc<Semaphore>,
}

impl Default for Walks {
    fn default() -> Self {
        Self {
            workers: Workers::default(),
            slots: Arc::new(Semaphore::new(MAX_JOBS)),
        }
    }
}

/// Limits of the jobs of one session.
#[derive(Clone, Debug)]
pub(crate) struct WalkLimits {
    slots: Arc<Semaphore>,
}

impl Default for WalkLimits {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_SESSION_JOBS)),
        }
    }
}

/// A job with its place among the others of the session and the host.
#[derive(Debug)]
pub(crate) struct WalkJob {
    job: RunningJob,
    ended: CancellationToken,
    _slots: Option<[OwnedSemaphorePermit; 2]>,
}

impl Engine {
    /// Starts a job. `tree` is the tree of the session, which a comparison does not use; `ended`
    /// ends the job.
    pub(crate) async fn start_walk(
        self: &Arc<Self>,
        limits: &WalkLimits,
        tree: Option<&SessionTree>,
        request: Request,
        ended: &CancellationToken,
    ) -> Result<WalkJob> {
        let started = async {
            let slots = match request {
                Request::Export { .. } => None,
                _ => Some([slot(&limits.slots).await?, slot(&self.walks.slots).await?]),
            };
            let envelope = Envelope {
                owners: tree
                    .and_then(SessionTree::owners)
                    .map(|owners| owners.first()),
                request,
            };
            let message = encode(&envelope)?;
            let (engine, tree) = (Arc::clone(self), tree.cloned());
            let mut job = blocking(move || engine.order(tree.as_ref(), &envelope.request)).await?;
            job.send(&message).await?;
            Ok::<_, Error>((job, slots))
        };
        let (job, slots) = tokio::select! {
            biased;
            () = ended.cancelled() => return Err(session_ended()),
            started = started => started?,
        };
        Ok(WalkJob {
            job,
            ended: ended.clone(),
            _slots: slots,
        })
    }

    fn order(&self, tree: Option<&SessionTree>, request: &Request) -> Result<RunningJob> {
        let readable = match request {
            Request::Diff { from, to } => from
                .directories()
                .chain(to.directories())
                .map(|path| CString::new(path.as_os_str().as_bytes()))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| Error::internal("path holds NUL").with_source(error))?,
            _ => Vec::new(),
        };
        self.walks.workers.start(&JobOrder {
            directories: tree.into_iter().map(SessionTree::root).collect(),
            descriptors: tree
                .and_then(SessionTree::owners)
                .into_iter()
                .map(|owners| owners.as_fd())
                .collect(),
            readable,
            memory: JOB_MEMORY,
            time: match request {
                Request::Export { .. } => EXPORT_TIME,
                _ => self.config.tool_timeout.saturating_add(TIME_MARGIN),
            },
        })
    }
}

async fn slot(slots: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    let slots = Arc::clone(slots);
    slots
        .acquire_owned()
        .await
        .map_err(|error| Error::internal("worker slots were closed").with_source(error))
}

fn session_ended() -> Error {
    Error::new(
        ErrorCode::Unavailable,
        "session was stopped during the operation",
    )
}

impl WalkJob {
    /// Returns the next part of the answer. The job ends when the session does.
    pub(crate) async fn next(&mut self) -> Result<JobPart> {
        tokio::select! {
            biased;
            () = self.ended.cancelled() => Err(session_ended()),
            part = self.job.next() => part,
        }
    }

    /// Returns the next bytes of an export; `None` at its end.
    pub(crate) async fn next_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        match self.next().await? {
            JobPart::Part(bytes) => Ok(Some(bytes)),
            JobPart::End(end) => {
                decode::<End>(&end)?.map_err(Error::from)?;
                Ok(None)
            }
        }
    }

    /// Collects the entries that `entries` takes from the parts, up to the limit on one answer.
    async fn collect<W, T: From<W>>(
        mut self,
        entries: impl Fn(Part) -> Option<Vec<W>>,
        bytes: impl Fn(&W) -> usize,
    ) -> Result<Vec<T>> {
        let (mut collected, mut total) = (Vec::new(), 0);
        loop {
            match self.next().await? {
                JobPart::Part(part) => {
                    let some = entries(decode(&part)?)
                        .ok_or_else(|| Error::internal("worker sent another kind of part"))?;
                    total += some.iter().map(&bytes).sum::<usize>() + size_of_val(&*some);
                    if total > MAX_ANSWER_BYTES {
                        return Err(too_large());
                    }
                    collected.extend(some.into_iter().map(T::from));
                }
                JobPart::End(end) => {
                    decode::<End>(&end)?.map_err(Error::from)?;
                    return Ok(collected);
                }
            }
        }
    }

    pub(crate) async fn stats(self) -> Result<Vec<FileStat>> {
        let entries = |part| match part {
            Part::Stats(entries) => Some(entries),
            _ => None,
        };
        self.collect(entries, super::messages::WireStat::bytes)
            .await
    }

    pub(crate) async fn details(self) -> Result<Vec<FileDetails>> {
        let entries = |part| match part {
            Part::Details(entries) => Some(entries),
            _ => None,
        };
        self.collect(entries, super::messages::WireDetails::bytes)
            .await
    }

    pub(crate) async fn changes(self) -> Result<Vec<Change>> {
        let entries = |part| match part {
            Part::Changes(entries) => Some(entries),
            _ => None,
        };
        self.collect(entries, super::messages::WireChange::bytes)
            .await
    }

    /// Waits for the response of a tool, and passes its progress on.
    async fn response(mut self, context: &ToolContext) -> Result<ToolResponse> {
        let started = Instant::now();
        loop {
            match self.next().await? {
                JobPart::Part(part) => {
                    let Part::Progress(text) = decode(&part)? else {
                        return Err(Error::internal("worker sent another kind of part"));
                    };
                    // A caller that does not read progress still gets the answer.
                    let _ = context
                        .progress
                        .send(ToolProgress {
                            content: text,
                            is_error: false,
                        })
                        .await;
                }
                JobPart::End(end) => {
                    let response = decode::<End>(&end)?
                        .map_err(Error::from)?
                        .ok_or_else(|| Error::internal("worker sent no response"))?;
                    return Ok(response.into_response(started.elapsed()));
                }
            }
        }
    }
}

fn too_large() -> Error {
    let most = MAX_ANSWER_BYTES >> 20;
    Error::invalid(
        "path",
        format!("answer would have more than {most} MiB of names"),
    )
    .with_hint("use a narrower path or a smaller depth")
}

/// Runs the walking tools of a session.
#[derive(Debug)]
pub(crate) struct ToolWalks {
    pub(crate) engine: Arc<Engine>,
    pub(crate) limits: WalkLimits,
}

impl WalkRunner for ToolWalks {
    fn run<'a>(
        &'a self,
        tool: &'a str,
        params: &'a ToolParams,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolResponse>> {
        Box::pin(async move {
            let params = serde_json::to_string(params).map_err(|error| {
                Error::internal("could not encode parameters").with_source(error)
            })?;
            let request = Request::Tool {
                tool: tool.to_owned(),
                params,
                time_limit: context.time_limit,
            };
            self.engine
                .start_walk(
                    &self.limits,
                    Some(&context.tree),
                    request,
                    &context.cancelled,
                )
                .await?
                .response(context)
                .await
        })
    }
}

/// Waits for a future on a thread of the waiting pool.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(work)
}
