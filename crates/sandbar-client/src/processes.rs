//! Long-running processes on the other side.

use std::fmt;

use bytes::Bytes;
use connectrpc::client::ServerStream;
use sandbar_core::{LogChunk, LogQuery, ProcessId, ProcessInfo, ProcessSpec, Result, SessionId, TerminalSize, WaitFor};
use sandbar_proto::v1;

use crate::{Client, client::incomplete, transport::AnswerBody};

type Chunks = ServerStream<AnswerBody, v1::ProcessLogsResponseView<'static>>;

/// Largest piece of input sent as one message; far below the limit of a message.
const PIECE: usize = 1 << 20;

impl Client {
    /// Starts a process, and returns while it is starting.
    pub async fn launch_process(&self, id: &SessionId, spec: ProcessSpec) -> Result<ProcessInfo> {
        let request = v1::LaunchProcessRequest::new(id, spec);
        let answer = self.once(self.rpc.launch_process(request)).await?.into_owned();
        answer.process.into_option().ok_or_else(|| incomplete("process"))?.try_into()
    }

    /// In the order they were launched, those that have exited too.
    pub async fn list_processes(&self, id: &SessionId) -> Result<Vec<ProcessInfo>> {
        let request = v1::ListProcessesRequest { session_id: id.as_str().to_owned(), ..Default::default() };
        let answer = self.repeat(|| self.rpc.list_processes(request.clone())).await?.into_owned();
        answer.processes.into_iter().map(TryInto::try_into).collect()
    }

    pub async fn get_process_status(&self, id: &SessionId, process: &ProcessId) -> Result<ProcessInfo> {
        let request = v1::GetProcessStatusRequest {
            session_id: id.as_str().to_owned(),
            process_id: process.as_str().to_owned(),
            ..Default::default()
        };
        let answer = self.repeat(|| self.rpc.get_process_status(request.clone())).await?.into_owned();
        answer.process.into_option().ok_or_else(|| incomplete("process"))?.try_into()
    }

    /// Sends a signal to a process, and does not wait for what comes of it.
    pub async fn kill_process(&self, id: &SessionId, process: &ProcessId, signal: i32) -> Result<ProcessInfo> {
        let request = v1::KillProcessRequest {
            session_id: id.as_str().to_owned(),
            process_id: process.as_str().to_owned(),
            signal,
            ..Default::default()
        };
        let answer = self.once(self.rpc.kill_process(request)).await?.into_owned();
        answer.process.into_option().ok_or_else(|| incomplete("process"))?.try_into()
    }

    /// Waits until a process is ready, or has exited.
    pub async fn wait_process(&self, id: &SessionId, process: &ProcessId, wait_for: WaitFor) -> Result<ProcessInfo> {
        let request = v1::WaitProcessRequest::new(id, process, wait_for);
        let answer = self.repeat(|| self.rpc.wait_process(request.clone())).await?.into_owned();
        answer.process.into_option().ok_or_else(|| incomplete("process"))?.try_into()
    }

    /// What a process has written, and with `follow` what it writes until it has exited.
    pub async fn process_logs(&self, id: &SessionId, process: &ProcessId, query: LogQuery) -> Result<RemoteLogs> {
        let chunks = self.once(self.rpc.process_logs(v1::ProcessLogsRequest::new(id, process, query))).await?;
        Ok(RemoteLogs { client: self.clone(), chunks })
    }

    /// Hands bytes to a process; waits while it is slow to read.
    pub async fn write_process_stdin(&self, id: &SessionId, process: &ProcessId, mut bytes: Bytes) -> Result<()> {
        while !bytes.is_empty() {
            let data = bytes.split_to(bytes.len().min(PIECE));
            let request = v1::SendProcessInputRequest { data, ..input(id, process) };
            self.once(self.rpc.send_process_input(request)).await?;
        }
        Ok(())
    }

    /// Ends the input of a process: it reads what was written, then end of file.
    pub async fn close_process_stdin(&self, id: &SessionId, process: &ProcessId) -> Result<()> {
        let request = v1::SendProcessInputRequest { close: true, ..input(id, process) };
        self.once(self.rpc.send_process_input(request)).await.map(drop)
    }

    /// Changes the size of the terminal of a process.
    pub async fn resize_process(&self, id: &SessionId, process: &ProcessId, size: TerminalSize) -> Result<()> {
        let resize = v1::TerminalSize::from(size).into();
        let request = v1::SendProcessInputRequest { resize, ..input(id, process) };
        self.once(self.rpc.send_process_input(request)).await.map(drop)
    }
}

fn input(id: &SessionId, process: &ProcessId) -> v1::SendProcessInputRequest {
    v1::SendProcessInputRequest {
        session_id: id.as_str().to_owned(),
        process_id: process.as_str().to_owned(),
        ..Default::default()
    }
}

/// The logs of a process on the other side.
pub struct RemoteLogs {
    client: Client,
    chunks: Chunks,
}

impl RemoteLogs {
    /// The next piece; `None` at the end, which for a follower is when the process has exited.
    pub async fn next(&mut self) -> Result<Option<LogChunk>> {
        let chunk = self.client.once(self.chunks.message()).await?;
        chunk.map(|chunk| chunk.to_owned_message().try_into()).transpose()
    }
}

impl fmt::Debug for RemoteLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLogs").finish_non_exhaustive()
    }
}
