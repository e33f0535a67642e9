//! Long-running processes.

use connectrpc::{ConnectError, Response, ServiceResult, ServiceStream};
use futures::stream;
use sandbar_core::{Error, ProcessId, SessionId, TerminalSize};
use sandbar_proto::v1;

use crate::{
    failure::{failed, failed_in, stopping},
    service::Service,
    signal::{SIGTERM, known_signal},
};

impl Service {
    pub(crate) async fn launch(&self, request: v1::LaunchProcessRequest) -> ServiceResult<v1::LaunchProcessResponse> {
        let (id, spec) = request.unpack().map_err(failed)?;
        let process = self.host.launch_process(&id, spec).await.map_err(failed_in(&id))?;
        Response::ok(v1::LaunchProcessResponse { process: v1::Process::from(process).into(), ..Default::default() })
    }

    pub(crate) async fn kill(&self, request: v1::KillProcessRequest) -> ServiceResult<v1::KillProcessResponse> {
        let (id, process) = names(request.session_id, request.process_id)?;
        let signal = match request.signal {
            0 => SIGTERM,
            number => known_signal(number).map_err(failed)?,
        };
        let process = self.host.kill_process(&id, &process, signal).await.map_err(failed_in(&id))?;
        Response::ok(v1::KillProcessResponse { process: v1::Process::from(process).into(), ..Default::default() })
    }

    pub(crate) async fn find_process(
        &self,
        request: v1::GetProcessStatusRequest,
    ) -> ServiceResult<v1::GetProcessStatusResponse> {
        let (id, process) = names(request.session_id, request.process_id)?;
        let process = self.host.get_process_status(&id, &process).await.map_err(failed_in(&id))?;
        Response::ok(v1::GetProcessStatusResponse { process: v1::Process::from(process).into(), ..Default::default() })
    }

    pub(crate) async fn processes_of(&self, id: &str) -> ServiceResult<v1::ListProcessesResponse> {
        let id = SessionId::new(id).map_err(failed)?;
        let processes = self.host.list_processes(&id).await.map_err(failed_in(&id))?;
        Response::ok(v1::ListProcessesResponse {
            processes: processes.into_iter().map(Into::into).collect(),
            ..Default::default()
        })
    }

    pub(crate) async fn await_process(
        &self,
        request: v1::WaitProcessRequest,
    ) -> ServiceResult<v1::WaitProcessResponse> {
        let (id, process, wait_for) = request.unpack().map_err(failed)?;
        let process = tokio::select! {
            process = self.host.wait_process(&id, &process, wait_for) => process.map_err(failed_in(&id))?,
            () = self.shutdown.cancelled() => return Err(stopping(&id)),
        };
        Response::ok(v1::WaitProcessResponse { process: v1::Process::from(process).into(), ..Default::default() })
    }

    /// The reader belongs to the answer. One that is slow holds up nobody: it misses something, and is told how much.
    pub(crate) async fn read_logs(
        &self,
        request: v1::ProcessLogsRequest,
    ) -> ServiceResult<ServiceStream<v1::ProcessLogsResponse>> {
        let (id, process, query) = request.unpack().map_err(failed)?;
        let logs = self.host.process_logs(&id, &process, query).await.map_err(failed_in(&id))?;
        let reader = (logs, self.shutdown.clone());
        let chunks = stream::unfold(Some(reader), move |reader| {
            let id = id.clone();
            async move {
                let (mut logs, shutdown) = reader?;
                tokio::select! {
                    biased;
                    chunk = logs.next() => Some((Ok(v1::ProcessLogsResponse::from(chunk?)), Some((logs, shutdown)))),
                    () = shutdown.cancelled() => Some((Err(stopping(&id)), None)),
                }
            }
        });
        Ok(Response::new(Box::pin(chunks)))
    }

    pub(crate) async fn feed_process(
        &self,
        request: v1::SendProcessInputRequest,
    ) -> ServiceResult<v1::SendProcessInputResponse> {
        let (id, process) = names(request.session_id, request.process_id)?;
        let size = request.resize.into_option().map(TerminalSize::try_from).transpose().map_err(failed)?;
        if size.is_none() && request.data.is_empty() && !request.close {
            return Err(failed(
                Error::invalid("data", "there is nothing to send").with_hint("send `data`, `close` or `resize`"),
            ));
        }
        if let Some(size) = size {
            self.host.resize_process(&id, &process, size).await.map_err(failed_in(&id))?;
        }
        if !request.data.is_empty() {
            self.host.write_process_stdin(&id, &process, request.data).await.map_err(failed_in(&id))?;
        }
        if request.close {
            self.host.close_process_stdin(&id, &process).await.map_err(failed_in(&id))?;
        }
        Response::ok(v1::SendProcessInputResponse::default())
    }
}

fn names(session: String, process: String) -> Result<(SessionId, ProcessId), ConnectError> {
    Ok((SessionId::new(session).map_err(failed)?, ProcessId::new(process).map_err(failed)?))
}
