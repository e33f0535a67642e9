//! Long-running processes.

use connectrpc::{ConnectError, Response, ServiceResult, ServiceStream};
use futures::stream;
use sandbar_core::{Error, ProcessId, SessionId, TerminalSize, signal};
use sandbar_proto::v1;

use super::{
    errors::{failed, failed_in, stopping},
    service::Service,
};

pub(super) async fn launch_process(
    service: &Service,
    request: v1::LaunchProcessRequest,
) -> ServiceResult<v1::LaunchProcessResponse> {
    let (id, spec) = request.unpack().map_err(failed)?;
    let process = service
        .host
        .launch_process(&id, spec)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::LaunchProcessResponse {
        process: v1::Process::from(process).into(),
        ..Default::default()
    })
}

pub(super) async fn kill_process(
    service: &Service,
    request: v1::KillProcessRequest,
) -> ServiceResult<v1::KillProcessResponse> {
    let (id, process) = parse_ids(request.session_id, request.process_id)?;
    let signal = match request.signal {
        0 => signal::SIGTERM,
        number => signal::check(number).map_err(failed)?,
    };
    let process = service
        .host
        .kill_process(&id, &process, signal)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::KillProcessResponse {
        process: v1::Process::from(process).into(),
        ..Default::default()
    })
}

pub(super) async fn get_process_status(
    service: &Service,
    request: v1::GetProcessStatusRequest,
) -> ServiceResult<v1::GetProcessStatusResponse> {
    let (id, process) = parse_ids(request.session_id, request.process_id)?;
    let process = service
        .host
        .get_process_status(&id, &process)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::GetProcessStatusResponse {
        process: v1::Process::from(process).into(),
        ..Default::default()
    })
}

pub(super) async fn list_processes(
    service: &Service,
    request: v1::ListProcessesRequest,
) -> ServiceResult<v1::ListProcessesResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let processes = service
        .host
        .list_processes(&id)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::ListProcessesResponse {
        processes: processes.into_iter().map(Into::into).collect(),
        ..Default::default()
    })
}

pub(super) async fn wait_process(
    service: &Service,
    request: v1::WaitProcessRequest,
) -> ServiceResult<v1::WaitProcessResponse> {
    let (id, process, wait_for) = request.unpack().map_err(failed)?;
    let process = tokio::select! {
        process = service.host.wait_process(&id, &process, wait_for) => process.map_err(failed_in(&id))?,
        () = service.shutdown.cancelled() => return Err(stopping(&id)),
    };
    Response::ok(v1::WaitProcessResponse {
        process: v1::Process::from(process).into(),
        ..Default::default()
    })
}

/// The stream owns the log reader. A slow reader does not block the process: output it misses is
/// dropped and counted.
pub(super) async fn process_logs(
    service: &Service,
    request: v1::ProcessLogsRequest,
) -> ServiceResult<ServiceStream<v1::ProcessLogsResponse>> {
    let (id, process, query) = request.unpack().map_err(failed)?;
    let logs = service
        .host
        .process_logs(&id, &process, query)
        .await
        .map_err(failed_in(&id))?;
    let reader = (logs, service.shutdown.clone());
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

pub(super) async fn send_process_input(
    service: &Service,
    request: v1::SendProcessInputRequest,
) -> ServiceResult<v1::SendProcessInputResponse> {
    let (id, process) = parse_ids(request.session_id, request.process_id)?;
    let size = request
        .resize
        .into_option()
        .map(TerminalSize::try_from)
        .transpose()
        .map_err(failed)?;
    if size.is_none() && request.data.is_empty() && !request.close {
        return Err(failed(
            Error::invalid("data", "request has no input")
                .with_hint("send `data`, `close` or `resize`"),
        ));
    }
    if let Some(size) = size {
        service
            .host
            .resize_process(&id, &process, size)
            .await
            .map_err(failed_in(&id))?;
    }
    if !request.data.is_empty() {
        service
            .host
            .write_process_stdin(&id, &process, request.data)
            .await
            .map_err(failed_in(&id))?;
    }
    if request.close {
        service
            .host
            .close_process_stdin(&id, &process)
            .await
            .map_err(failed_in(&id))?;
    }
    Response::ok(v1::SendProcessInputResponse::default())
}

fn parse_ids(session: String, process: String) -> Result<(SessionId, ProcessId), ConnectError> {
    Ok((
        SessionId::new(session).map_err(failed)?,
        ProcessId::new(process).map_err(failed)?,
    ))
}
