//! A name server for tests: one port of this machine, by UDP and TCP, with what the test says.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    task::JoinSet,
};

use super::{
    message::{Message, Question, flag},
    name::WireName,
    record::{INTERNET, Record},
};

/// What the server says to a query. None is silence.
type Reply = dyn Fn(&Message, By) -> Option<Vec<u8>> + Send + Sync;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Udp,
    Tcp,
}

/// Serves until it is dropped.
pub(super) struct TestServer {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<(Question, By)>>>,
    _tasks: JoinSet<()>,
}

impl TestServer {
    pub(super) async fn start(reply: impl Fn(&Message, By) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let (socket, listener) = loop {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            // The same number may be taken for TCP; another is not.
            if let Ok(listener) = TcpListener::bind(socket.local_addr().unwrap()).await {
                break (socket, listener);
            }
        };
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let state = Arc::new(State { reply: Box::new(reply), asked: Arc::clone(&asked) });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(socket, Arc::clone(&state)));
        tasks.spawn(serve_tcp(listener, state));
        Self { address, asked, _tasks: tasks }
    }

    /// One that has these records, and says of other names that they are not there. Aliases are not followed.
    pub(super) async fn with(records: Vec<Record>) -> Self {
        Self::start(move |query, _| Some(from_records(query, &records).write())).await
    }

    /// What it was asked so far.
    pub(super) fn asked(&self) -> Vec<(Question, By)> {
        self.asked.lock().unwrap().clone()
    }
}

struct State {
    reply: Box<Reply>,
    asked: Arc<Mutex<Vec<(Question, By)>>>,
}

impl State {
    fn reply(&self, query: &[u8], by: By) -> Option<Vec<u8>> {
        let query = Message::read(query).unwrap();
        self.asked.lock().unwrap().push((query.question.clone().unwrap(), by));
        (self.reply)(&query, by)
    }
}

async fn serve_udp(socket: UdpSocket, state: Arc<State>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        if let Some(reply) = state.reply(&buffer[..length], By::Udp) {
            socket.send_to(&reply, from).await.unwrap();
        }
    }
}

async fn serve_tcp(listener: TcpListener, state: Arc<State>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let Ok(length) = stream.read_u16().await else { continue };
        let mut query = vec![0; length.into()];
        stream.read_exact(&mut query).await.unwrap();
        if let Some(reply) = state.reply(&query, By::Tcp) {
            stream.write_u16(u16::try_from(reply.len()).unwrap()).await.unwrap();
            stream.write_all(&reply).await.unwrap();
        }
    }
}

/// The answer to a query, still without content.
pub(super) fn reply_to(query: &Message, code: u16) -> Message {
    let mut reply = query.clone();
    reply.head.flags = flag::RESPONSE | flag::RECURSION_AVAILABLE | flag::RECURSION_DESIRED | code;
    reply
}

pub(super) fn from_records(query: &Message, records: &[Record]) -> Message {
    let question = query.question.as_ref().unwrap();
    let of_name: Vec<&Record> = records.iter().filter(|record| record.name == question.name).collect();
    let mut reply = reply_to(query, if of_name.is_empty() { 3 } else { 0 });
    let is_answer = |record: &&&Record| record.kind == question.kind || record.kind == super::record::kind::CNAME;
    reply.answers = of_name.iter().filter(is_answer).map(|record| (*record).clone()).collect();
    reply
}

pub(super) fn wire(name: &str) -> WireName {
    WireName::from(&name.parse().unwrap())
}

pub(super) fn leads(name: &str, address: &str, ttl: u32) -> Record {
    Record::of_address(wire(name), address.parse().unwrap(), ttl)
}

pub(super) fn alias(name: &str, of: &str) -> Record {
    record(name, super::record::kind::CNAME, wire(of).as_bytes())
}

pub(super) fn record(name: &str, kind: u16, data: &[u8]) -> Record {
    Record { name: wire(name), kind, class: INTERNET, ttl: 120, data: data.to_vec() }
}
