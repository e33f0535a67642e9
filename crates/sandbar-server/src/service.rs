//! The service trait, call by call. What each does is in the file of its group.

use std::{sync::Arc, time::Duration};

use connectrpc::{InboundStream, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream};
use futures::stream;
use sandbar_host::Host;
use sandbar_proto::v1;
use tokio_util::sync::CancellationToken;

use crate::{access::Caller, slow_reader::with_patience};

/// The host behind `sandbar.v1.SandboxService`.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) host: Arc<Host>,
    /// Cancelled when the server begins to stop: whoever waits for something that may never come is sent away.
    pub(crate) shutdown: CancellationToken,
    /// How long a reader of a stream may take nothing.
    pub(crate) slow_reader_timeout: Duration,
}

#[expect(refining_impl_trait, reason = "the trait leaves the body's type open; here it is always the owned message")]
impl v1::SandboxService for Service {
    async fn create_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::CreateSessionRequest>,
    ) -> ServiceResult<v1::CreateSessionResponse> {
        self.make_session(request.to_owned_message()).await
    }

    async fn get_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::GetSessionRequest>,
    ) -> ServiceResult<v1::GetSessionResponse> {
        self.find_session(request.session_id, request.include_usage).await
    }

    async fn list_sessions(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, v1::ListSessionsRequest>,
    ) -> ServiceResult<v1::ListSessionsResponse> {
        self.page_of_sessions(Caller::of(&context)?, request.to_owned_message()).await
    }

    async fn destroy_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DestroySessionRequest>,
    ) -> ServiceResult<v1::DestroySessionResponse> {
        self.remove_session(request.session_id).await
    }

    async fn set_expiry(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::SetExpiryRequest>,
    ) -> ServiceResult<v1::SetExpiryResponse> {
        let session = self.set_end(request.to_owned_message()).await?;
        Response::ok(v1::SetExpiryResponse { session: session.into(), ..Default::default() })
    }

    async fn pause_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::PauseSessionRequest>,
    ) -> ServiceResult<v1::PauseSessionResponse> {
        let session = self.pause(request.to_owned_message()).await?;
        Response::ok(v1::PauseSessionResponse { session: session.into(), ..Default::default() })
    }

    async fn resume_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ResumeSessionRequest>,
    ) -> ServiceResult<v1::ResumeSessionResponse> {
        let session = self.resume(request.session_id).await?;
        Response::ok(v1::ResumeSessionResponse { session: session.into(), ..Default::default() })
    }

    async fn hibernate_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::HibernateSessionRequest>,
    ) -> ServiceResult<v1::HibernateSessionResponse> {
        let session = self.hibernate(request.session_id).await?;
        Response::ok(v1::HibernateSessionResponse { session: session.into(), ..Default::default() })
    }

    async fn wake_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::WakeSessionRequest>,
    ) -> ServiceResult<v1::WakeSessionResponse> {
        let session = self.wake(request.session_id).await?;
        Response::ok(v1::WakeSessionResponse { session: session.into(), ..Default::default() })
    }

    async fn fork_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ForkSessionRequest>,
    ) -> ServiceResult<v1::ForkSessionResponse> {
        self.copy_session(request.to_owned_message()).await
    }

    async fn get_network(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, v1::GetNetworkRequest>,
    ) -> ServiceResult<v1::GetNetworkResponse> {
        self.network_of(Caller::of(&context)?, request.session_id).await
    }

    async fn set_network(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::SetNetworkRequest>,
    ) -> ServiceResult<v1::SetNetworkResponse> {
        self.change_network(request.to_owned_message()).await
    }

    async fn put_secret(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::PutSecretRequest>,
    ) -> ServiceResult<v1::PutSecretResponse> {
        self.keep_secret(request.to_owned_message()).await
    }

    async fn list_secrets(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::ListSecretsRequest>,
    ) -> ServiceResult<v1::ListSecretsResponse> {
        self.all_secrets().await
    }

    async fn delete_secret(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DeleteSecretRequest>,
    ) -> ServiceResult<v1::DeleteSecretResponse> {
        self.forget_secret(request.name).await
    }

    async fn create_token(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::CreateTokenRequest>,
    ) -> ServiceResult<v1::CreateTokenResponse> {
        self.make_token(request.to_owned_message()).await
    }

    async fn list_tokens(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::ListTokensRequest>,
    ) -> ServiceResult<v1::ListTokensResponse> {
        self.all_tokens().await
    }

    async fn revoke_token(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::RevokeTokenRequest>,
    ) -> ServiceResult<v1::RevokeTokenResponse> {
        self.take_token_back(request.name).await
    }

    async fn turn_complete(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::TurnCompleteRequest>,
    ) -> ServiceResult<v1::TurnCompleteResponse> {
        self.end_turn(request.session_id).await
    }

    async fn create_snapshot(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::CreateSnapshotRequest>,
    ) -> ServiceResult<v1::CreateSnapshotResponse> {
        self.take_snapshot(request.to_owned_message()).await
    }

    async fn list_snapshots(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ListSnapshotsRequest>,
    ) -> ServiceResult<v1::ListSnapshotsResponse> {
        self.snapshots_of(request.session_id).await
    }

    async fn delete_snapshot(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DeleteSnapshotRequest>,
    ) -> ServiceResult<v1::DeleteSnapshotResponse> {
        self.remove_snapshot(request.to_owned_message()).await
    }

    async fn rollback_session(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::RollbackSessionRequest>,
    ) -> ServiceResult<v1::RollbackSessionResponse> {
        self.go_back(request.to_owned_message()).await
    }

    async fn diff(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DiffRequest>,
    ) -> ServiceResult<ServiceStream<v1::DiffResponse>> {
        self.in_stream(self.differences(request.to_owned_message()).await)
    }

    async fn list_bases(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::ListBasesRequest>,
    ) -> ServiceResult<v1::ListBasesResponse> {
        self.all_bases().await
    }

    async fn import_base(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ImportBaseRequest>,
    ) -> ServiceResult<ServiceStream<v1::ImportBaseResponse>> {
        self.in_stream(self.bring_base(request.to_owned_message()))
    }

    async fn save_base(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::SaveBaseRequest>,
    ) -> ServiceResult<v1::SaveBaseResponse> {
        self.keep_base(request.to_owned_message()).await
    }

    async fn delete_base(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::DeleteBaseRequest>,
    ) -> ServiceResult<v1::DeleteBaseResponse> {
        self.remove_base(request.name).await
    }

    async fn health_check(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::HealthCheckRequest>,
    ) -> ServiceResult<v1::HealthCheckResponse> {
        self.check_health().await
    }

    async fn capabilities(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::CapabilitiesRequest>,
    ) -> ServiceResult<v1::CapabilitiesResponse> {
        self.tell_capabilities()
    }

    async fn exec(
        &self,
        _: RequestContext,
        requests: InboundStream<v1::ExecRequest>,
    ) -> ServiceResult<ServiceStream<v1::ExecResponse>> {
        self.in_stream(self.run_command(requests).await)
    }

    async fn launch_process(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::LaunchProcessRequest>,
    ) -> ServiceResult<v1::LaunchProcessResponse> {
        self.launch(request.to_owned_message()).await
    }

    async fn kill_process(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::KillProcessRequest>,
    ) -> ServiceResult<v1::KillProcessResponse> {
        self.kill(request.to_owned_message()).await
    }

    async fn get_process_status(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::GetProcessStatusRequest>,
    ) -> ServiceResult<v1::GetProcessStatusResponse> {
        self.find_process(request.to_owned_message()).await
    }

    async fn list_processes(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ListProcessesRequest>,
    ) -> ServiceResult<v1::ListProcessesResponse> {
        self.processes_of(request.session_id).await
    }

    async fn wait_process(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::WaitProcessRequest>,
    ) -> ServiceResult<v1::WaitProcessResponse> {
        self.await_process(request.to_owned_message()).await
    }

    async fn process_logs(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ProcessLogsRequest>,
    ) -> ServiceResult<ServiceStream<v1::ProcessLogsResponse>> {
        self.in_stream(self.read_logs(request.to_owned_message()).await)
    }

    async fn send_process_input(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::SendProcessInputRequest>,
    ) -> ServiceResult<v1::SendProcessInputResponse> {
        self.feed_process(request.to_owned_message()).await
    }

    async fn audit(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::AuditRequest>,
    ) -> ServiceResult<v1::AuditResponse> {
        self.page_of_audit(request.to_owned_message()).await
    }

    async fn verify_audit(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::VerifyAuditRequest>,
    ) -> ServiceResult<v1::VerifyAuditResponse> {
        self.check_audit(request.session_id).await
    }

    async fn list_tools(
        &self,
        _: RequestContext,
        _request: ServiceRequest<'_, v1::ListToolsRequest>,
    ) -> ServiceResult<v1::ListToolsResponse> {
        self.all_tools()
    }

    async fn execute_tool(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ExecuteToolRequest>,
    ) -> ServiceResult<v1::ExecuteToolResponse> {
        self.call_tool(request.to_owned_message()).await
    }

    async fn execute_tool_stream(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ExecuteToolRequest>,
    ) -> ServiceResult<ServiceStream<v1::ExecuteToolStreamResponse>> {
        self.in_stream(self.follow_tool(request.to_owned_message()).await)
    }

    async fn read_file(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ReadFileRequest>,
    ) -> ServiceResult<ServiceStream<v1::ReadFileResponse>> {
        self.in_stream(self.send_file(request.to_owned_message()).await)
    }

    async fn write_file(
        &self,
        _: RequestContext,
        requests: InboundStream<v1::WriteFileRequest>,
    ) -> ServiceResult<v1::WriteFileResponse> {
        self.receive_file(requests).await
    }

    async fn stat(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::StatRequest>,
    ) -> ServiceResult<v1::StatResponse> {
        self.stat_file(request.to_owned_message()).await
    }

    async fn list_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ListDirRequest>,
    ) -> ServiceResult<ServiceStream<v1::ListDirResponse>> {
        self.in_stream(self.list_files(request.to_owned_message()).await)
    }

    async fn make_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::MakeDirRequest>,
    ) -> ServiceResult<v1::MakeDirResponse> {
        self.make_directory(request.to_owned_message()).await
    }

    async fn move_path(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::MovePathRequest>,
    ) -> ServiceResult<v1::MovePathResponse> {
        self.move_file(request.to_owned_message()).await
    }

    async fn remove_path(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::RemovePathRequest>,
    ) -> ServiceResult<v1::RemovePathResponse> {
        self.remove_file(request.to_owned_message()).await
    }

    async fn export_tree(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::ExportTreeRequest>,
    ) -> ServiceResult<ServiceStream<v1::ExportTreeResponse>> {
        self.in_stream(self.send_tree(request.to_owned_message()).await)
    }

    async fn import_tree(
        &self,
        _: RequestContext,
        requests: InboundStream<v1::ImportTreeRequest>,
    ) -> ServiceResult<v1::ImportTreeResponse> {
        self.receive_tree(requests).await
    }

    async fn attach_process(
        &self,
        _: RequestContext,
        requests: InboundStream<v1::AttachProcessRequest>,
    ) -> ServiceResult<ServiceStream<v1::AttachProcessResponse>> {
        self.in_stream(self.attach(requests).await)
    }

    async fn watch_events(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::WatchEventsRequest>,
    ) -> ServiceResult<ServiceStream<v1::WatchEventsResponse>> {
        self.in_stream(self.tell_events(request.to_owned_message()))
    }

    async fn watch_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, v1::WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<v1::WatchDirResponse>> {
        self.in_stream(self.watch_directory(request.to_owned_message()).await)
    }
}

impl Service {
    /// What every streaming answer goes through: a reader that takes nothing for too long is given up, and the error of a
    /// call that failed is put into its stream. Outside of it gRPC would carry the code and the message, but not our
    /// detail.
    #[expect(clippy::unnecessary_wraps, reason = "it stands where the outcome stood")]
    fn in_stream<M: Send + 'static>(
        &self,
        outcome: ServiceResult<ServiceStream<M>>,
    ) -> ServiceResult<ServiceStream<M>> {
        Ok(match outcome {
            Ok(answer) => answer.map_body(|answers| with_patience(answers, self.slow_reader_timeout)),
            Err(error) => Response::new(Box::pin(stream::iter([Err(error)]))),
        })
    }
}
