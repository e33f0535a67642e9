//! Process calls.

use std::fmt;

use bytes::Bytes;
use connectrpc::client::ServerStream;
use sandbar_core::{
    LogChunk, LogQuery, ProcessId, ProcessInfo, ProcessSpec, Result, SessionId, TerminalSize,
    WaitFor,
};
use sandbar_proto::v1;

use crate::{Client, client::required, transport::ResponseBody};

type Chunks = ServerStream<ResponseBody, v1::ProcessLogsResponseView<'static>>;

/// Largest chunk of input in one message, far below the message limit.
const MAX_CHUNK_BYTES: usize = 1 << 20;

impl Client {
    /// Launches a process, and returns without waiting until it is ready.
    pub async fn launch_process(&self, id: &SessionId, spec: ProcessSpec) -> Result<ProcessInfo> {
        let request = v1::LaunchProcessRequest::new(id, spec);
        let answer = self
            .once(self.rpc.launch_process(request))
            .await?
            .into_owned();
        required("process", answer.process.into_option())
    }

    /// Lists the processes in launch order, exited ones included.
    pub async fn list_processes(&self, id: &SessionId) -> Result<Vec<ProcessInfo>> {
        let request = v1::ListProcessesRequest {
            session_id: id.as_str().to_owned(),
            ..Default::default()
        };
        let answer = self
            .repeat(|| self.rpc.list_processes(request.clone()))
            .await?
            .into_owned();
        answer
            .processes
            .into_iter()
            .map(TryInto::try_into)
            .collect()
    }

    pub async fn get_process_status(
        &self,
        id: &SessionId,
        process: &ProcessId,
    ) -> Result<ProcessInfo> {
        let request = v1::GetProcessStatusRequest {
            session_id: id.as_str().to_owned(),
            process_id: process.as_str().to_owned(),
            ..Default::default()
        };
        let answer = self
            .repeat(|| self.rpc.get_process_status(request.clone()))
            .await?
            .into_owned();
        required("process", answer.process.into_option())
    }

    /// Sends a signal to a process, without waiting for its effect.
    pub async fn kill_process(
        &self,
        id: &SessionId,
        process: &ProcessId,
        signal: i32,
    ) -> Result<ProcessInfo> {
        let request = v1::KillProcessRequest {
            session_id: id.as_str().to_owned(),
            process_id: process.as_str().to_owned(),
            signal,
            ..Default::default()
        };
        let answer = self
            .once(self.rpc.kill_process(request))
            .await?
            .into_owned();
        required("process", answer.process.into_option())
    }

    /// Waits until a process is ready, or has exited.
    pub async fn wait_process(
        &self,
        id: &SessionId,
        process: &ProcessId,
        wait_for: WaitFor,
    ) -> Result<ProcessInfo> {
        let request = v1::WaitProcessRequest::new(id, process, wait_for);
        let answer = self
            .repeat(|| self.rpc.wait_process(request.clone()))
            .await?
            .into_owned();
        required("process", answer.process.into_option())
    }

    /// Returns the output of a process so far; with `follow`, also later output until it exits.
    pub async fn process_logs(
        &self,
        id: &SessionId,
        process: &ProcessId,
        query: LogQuery,
    ) -> Result<RemoteLogs> {
        let chunks = self
            .once(
                self.rpc
                    .process_logs(v1::ProcessLogsRequest::new(id, process, query)),
            )
            .await?;
        Ok(RemoteLogs {
            client: self.clone(),
            chunks,
        })
    }

    /// Writes to the stdin of a process, and waits while it does not read.
    pub async fn write_process_stdin(
        &self,
        id: &SessionId,
        process: &ProcessId,
        mut bytes: Bytes,
    ) -> Result<()> {
        while !bytes.is_empty() {
            let data = bytes.split_to(bytes.len().min(MAX_CHUNK_BYTES));
            let request = v1::SendProcessInputRequest {
                data,
                ..input(id, process)
            };
            self.once(self.rpc.send_process_input(request)).await?;
        }
        Ok(())
    }

    /// Closes the stdin of a process: it reads what was written, then end of file.
    pub async fn close_process_stdin(&self, id: &SessionId, process: &ProcessId) -> Result<()> {
        let request = v1::SendProcessInputRequest {
            close: true,
            ..input(id, process)
        };
        self.once(self.rpc.send_process_input(request))
            .await
            .map(drop)
    }

    /// Resizes the terminal of a process.
    pub async fn resize_process(
        &self,
        id: &SessionId,
        process: &ProcessId,
        size: TerminalSize,
    ) -> Result<()> {
        let resize = v1::TerminalSize::from(size).into();
        let request = v1::SendProcessInputRequest {
            resize,
            ..input(id, process)
        };
        self.once(self.rpc.send_process_input(request))
            .await
            .map(drop)
    }
}

fn input(id: &SessionId, process: &ProcessId) -> v1::SendProcessInputRequest {
    v1::SendProcessInputRequest {
        session_id: id.as_str().to_owned(),
        process_id: process.as_str().to_owned(),
        ..Default::default()
    }
}

/// Log stream of a process.
pub struct RemoteLogs {
    client: Client,
    chunks: Chunks,
}

impl RemoteLogs {
    /// Returns the next chunk; `None` at the end, which with `follow` is the exit of the process.
    pub async fn next(&mut self) -> Result<Option<LogChunk>> {
        let chunk = self.client.once(self.chunks.message()).await?;
        chunk
            .map(|chunk| chunk.to_owned_message().try_into())
            .transpose()
    }
}

impl fmt::Debug for RemoteLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLogs").finish_non_exhaustive()
    }
}
