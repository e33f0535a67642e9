//! Dispatch of each RPC to the function of the same name in the module of its group.

use std::{sync::Arc, time::Duration};

use connectrpc::{
    InboundStream, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use futures::stream;
use sandbar_host::Host;
use sandbar_proto::v1;
use tokio_util::sync::CancellationToken;

use super::{
    attach, audit, bases, events, exec, files, host, network, processes, sessions,
    slow_reader::with_read_timeout, snapshots, tokens, tools,
};
use crate::access::Caller;

/// The host behind `sandbar.v1.SandboxService`.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) host: Arc<Host>,
    /// Cancelled when the server begins to stop. Ends calls that could otherwise wait forever.
    pub(crate) shutdown: CancellationToken,
    /// Time a client may leave a response stream unread.
    pub(crate) slow_reader_timeout: Duration,
}

#[expect(
    refining_impl_trait,
    reason = "the trait leaves the body's type open; here it is always the owned message"
)]
impl v1::SandboxService for Service {
    async fn create_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::CreateSessionRequest>,
    ) -> ServiceResult<v1::CreateSessionResponse> {
        sessions::create_session(self, request.to_owned_message()).await
    }

    async fn get_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::GetSessionRequest>,
    ) -> ServiceResult<v1::GetSessionResponse> {
        sessions::get_session(self, request.to_owned_message()).await
    }

    async fn list_sessions(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, v1::ListSessionsRequest>,
    ) -> ServiceResult<v1::ListSessionsResponse> {
        sessions::list_sessions(self, Caller::of(&context)?, request.to_owned_message()).await
    }

    async fn destroy_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DestroySessionRequest>,
    ) -> ServiceResult<v1::DestroySessionResponse> {
        sessions::destroy_session(self, request.to_owned_message()).await
    }

    async fn set_expiry(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::SetExpiryRequest>,
    ) -> ServiceResult<v1::SetExpiryResponse> {
        sessions::set_expiry(self, request.to_owned_message()).await
    }

    async fn pause_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::PauseSessionRequest>,
    ) -> ServiceResult<v1::PauseSessionResponse> {
        sessions::pause_session(self, request.to_owned_message()).await
    }

    async fn resume_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ResumeSessionRequest>,
    ) -> ServiceResult<v1::ResumeSessionResponse> {
        sessions::resume_session(self, request.to_owned_message()).await
    }

    async fn hibernate_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::HibernateSessionRequest>,
    ) -> ServiceResult<v1::HibernateSessionResponse> {
        sessions::hibernate_session(self, request.to_owned_message()).await
    }

    async fn wake_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::WakeSessionRequest>,
    ) -> ServiceResult<v1::WakeSessionResponse> {
        sessions::wake_session(self, request.to_owned_message()).await
    }

    async fn fork_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ForkSessionRequest>,
    ) -> ServiceResult<v1::ForkSessionResponse> {
        sessions::fork_session(self, request.to_owned_message()).await
    }

    async fn get_network(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, v1::GetNetworkRequest>,
    ) -> ServiceResult<v1::GetNetworkResponse> {
        network::get_network(self, Caller::of(&context)?, request.to_owned_message()).await
    }

    async fn set_network(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::SetNetworkRequest>,
    ) -> ServiceResult<v1::SetNetworkResponse> {
        network::set_network(self, request.to_owned_message()).await
    }

    async fn put_secret(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::PutSecretRequest>,
    ) -> ServiceResult<v1::PutSecretResponse> {
        network::put_secret(self, request.to_owned_message()).await
    }

    async fn list_secrets(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::ListSecretsRequest>,
    ) -> ServiceResult<v1::ListSecretsResponse> {
        network::list_secrets(self).await
    }

    async fn delete_secret(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DeleteSecretRequest>,
    ) -> ServiceResult<v1::DeleteSecretResponse> {
        network::delete_secret(self, request.to_owned_message()).await
    }

    async fn create_token(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::CreateTokenRequest>,
    ) -> ServiceResult<v1::CreateTokenResponse> {
        tokens::create_token(self, request.to_owned_message()).await
    }

    async fn list_tokens(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::ListTokensRequest>,
    ) -> ServiceResult<v1::ListTokensResponse> {
        tokens::list_tokens(self).await
    }

    async fn revoke_token(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::RevokeTokenRequest>,
    ) -> ServiceResult<v1::RevokeTokenResponse> {
        tokens::revoke_token(self, request.to_owned_message()).await
    }

    async fn turn_complete(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::TurnCompleteRequest>,
    ) -> ServiceResult<v1::TurnCompleteResponse> {
        snapshots::turn_complete(self, request.to_owned_message()).await
    }

    async fn create_snapshot(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::CreateSnapshotRequest>,
    ) -> ServiceResult<v1::CreateSnapshotResponse> {
        snapshots::create_snapshot(self, request.to_owned_message()).await
    }

    async fn list_snapshots(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ListSnapshotsRequest>,
    ) -> ServiceResult<v1::ListSnapshotsResponse> {
        snapshots::list_snapshots(self, request.to_owned_message()).await
    }

    async fn delete_snapshot(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DeleteSnapshotRequest>,
    ) -> ServiceResult<v1::DeleteSnapshotResponse> {
        snapshots::delete_snapshot(self, request.to_owned_message()).await
    }

    async fn rollback_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::RollbackSessionRequest>,
    ) -> ServiceResult<v1::RollbackSessionResponse> {
        snapshots::rollback_session(self, request.to_owned_message()).await
    }

    async fn diff(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DiffRequest>,
    ) -> ServiceResult<ServiceStream<v1::DiffResponse>> {
        self.in_stream(snapshots::diff(self, request.to_owned_message()).await)
    }

    async fn list_bases(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::ListBasesRequest>,
    ) -> ServiceResult<v1::ListBasesResponse> {
        bases::list_bases(self).await
    }

    async fn import_base(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ImportBaseRequest>,
    ) -> ServiceResult<ServiceStream<v1::ImportBaseResponse>> {
        self.in_stream(bases::import_base(self, request.to_owned_message()))
    }

    async fn save_base(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::SaveBaseRequest>,
    ) -> ServiceResult<v1::SaveBaseResponse> {
        bases::save_base(self, request.to_owned_message()).await
    }

    async fn delete_base(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DeleteBaseRequest>,
    ) -> ServiceResult<v1::DeleteBaseResponse> {
        bases::delete_base(self, request.to_owned_message()).await
    }

    async fn health_check(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::HealthCheckRequest>,
    ) -> ServiceResult<v1::HealthCheckResponse> {
        host::health_check(self).await
    }

    async fn capabilities(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::CapabilitiesRequest>,
    ) -> ServiceResult<v1::CapabilitiesResponse> {
        host::capabilities(self)
    }

    async fn exec(
        &self,
        _: RequestContext,
        requests: InboundStream<v1::ExecRequest>,
    ) -> ServiceResult<ServiceStream<v1::ExecResponse>> {
        self.in_stream(exec::exec(self, requests).await)
    }

    async fn launch_process(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::LaunchProcessRequest>,
    ) -> ServiceResult<v1::LaunchProcessResponse> {
        processes::launch_process(self, request.to_owned_message()).await
    }

    async fn kill_process(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::KillProcessRequest>,
    ) -> ServiceResult<v1::KillProcessResponse> {
        processes::kill_process(self, request.to_owned_message()).await
    }

    async fn get_process_status(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::GetProcessStatusRequest>,
    ) -> ServiceResult<v1::GetProcessStatusResponse> {
        processes::get_process_status(self, request.to_owned_message()).await
    }

    async fn list_processes(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ListProcessesRequest>,
    ) -> ServiceResult<v1::ListProcessesResponse> {
        processes::list_processes(self, request.to_owned_message()).await
    }

    async fn wait_process(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::WaitProcessRequest>,
    ) -> ServiceResult<v1::WaitProcessResponse> {
        processes::wait_process(self, request.to_owned_message()).await
    }

    async fn process_logs(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ProcessLogsRequest>,
    ) -> ServiceResult<ServiceStream<v1::ProcessLogsResponse>> {
        self.in_stream(processes::process_logs(self, request.to_owned_message()).await)
    }

    async fn send_process_input(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::SendProcessInputRequest>,
    ) -> ServiceResult<v1::SendProcessInputResponse> {
        processes::send_process_input(self, request.to_owned_message()).await
    }

    async fn audit(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::AuditRequest>,
    ) -> ServiceResult<v1::AuditResponse> {
        audit::audit(self, request.to_owned_message()).await
    }

    async fn verify_audit(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::VerifyAuditRequest>,
    ) -> ServiceResult<v1::VerifyAuditResponse> {
        audit::verify_audit(self, request.to_owned_message()).await
    }

    async fn list_tools(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::ListToolsRequest>,
    ) -> ServiceResult<v1::ListToolsResponse> {
        tools::list_tools(self)
    }

    async fn execute_tool(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ExecuteToolRequest>,
    ) -> ServiceResult<v1::ExecuteToolResponse> {
        tools::execute_tool(self, request.to_owned_message()).await
    }

    async fn execute_tool_stream(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ExecuteToolRequest>,
    ) -> ServiceResult<ServiceStream<v1::ExecuteToolStreamResponse>> {
        self.in_stream(tools::execute_tool_stream(self, request.to_owned_message()).await)
    }

    async fn read_file(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ReadFileRequest>,
    ) -> ServiceResult<ServiceStream<v1::ReadFileResponse>> {
        self.in_stream(files::read_file(self, request.to_owned_message()).await)
    }

    async fn write_file(
        &self,
        _: RequestContext,
        requests: InboundStream<v1::WriteFileRequest>,
    ) -> ServiceResult<v1::WriteFileResponse> {
        files::write_file(self, requests).await
    }

    async fn stat(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::StatRequest>,
    ) -> ServiceResult<v1::StatResponse> {
        files::stat(self, request.to_owned_message()).await
    }

    async fn list_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ListDirRequest>,
    ) -> ServiceResult<ServiceStream<v1::ListDirResponse>> {
        self.in_stream(files::list_dir(self, request.to_owned_message()).await)
    }

    async fn make_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::MakeDirRequest>,
    ) -> ServiceResult<v1::MakeDirResponse> {
        files::make_dir(self, request.to_owned_message()).await
    }

    async fn move_path(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::MovePathRequest>,
    ) -> ServiceResult<v1::MovePathResponse> {
        files::move_path(self, request.to_owned_message()).await
    }

    async fn remove_path(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::RemovePathRequest>,
    ) -> ServiceResult<v1::RemovePathResponse> {
        files::remove_path(self, request.to_owned_message()).await
    }

    async fn export_tree(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ExportTreeRequest>,
    ) -> ServiceResult<ServiceStream<v1::ExportTreeResponse>> {
        self.in_stream(files::export_tree(self, request.to_owned_message()).await)
    }

    async fn import_tree(
        &self,
        _: RequestContext,
        requests: InboundStream<v1::ImportTreeRequest>,
    ) -> ServiceResult<v1::ImportTreeResponse> {
        files::import_tree(self, requests).await
    }

    async fn attach_process(
        &self,
        _: RequestContext,
        requests: InboundStream<v1::AttachProcessRequest>,
    ) -> ServiceResult<ServiceStream<v1::AttachProcessResponse>> {
        self.in_stream(attach::attach_process(self, requests).await)
    }

    async fn watch_events(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::WatchEventsRequest>,
    ) -> ServiceResult<ServiceStream<v1::WatchEventsResponse>> {
        self.in_stream(events::watch_events(self, request.to_owned_message()))
    }

    async fn watch_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<v1::WatchDirResponse>> {
        self.in_stream(events::watch_dir(self, request.to_owned_message()).await)
    }
}

impl Service {
    /// Applies the slow-reader timeout to a response stream, and puts the error of a failed call
    /// into the stream: outside of it, gRPC would carry code and message, but not our error detail.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "takes the place of the handler's result"
    )]
    fn in_stream<M: Send + 'static>(
        &self,
        outcome: ServiceResult<ServiceStream<M>>,
    ) -> ServiceResult<ServiceStream<M>> {
        Ok(match outcome {
            Ok(response) => {
                response.map_body(|stream| with_read_timeout(stream, self.slow_reader_timeout))
            }
            Err(error) => Response::new(Box::pin(stream::iter([Err(error)]))),
        })
    }
}
