//! A name server for tests: one port of this machine, by UDP and TCP, with what the test says.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use hickory_proto::{
    op::{Message, MessageType, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata::CNAME},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    task::JoinSet,
};

/// The answer to a query. None is silence.
type Reply = dyn Fn(&Message, Transport) -> Option<Vec<u8>> + Send + Sync;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

/// Serves until it is dropped.
#[derive(Debug)]
pub struct TestNameServer {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<(Query, Transport)>>>,
    _tasks: JoinSet<()>,
}

impl TestNameServer {
    pub async fn start(
        reply: impl Fn(&Message, Transport) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let (socket, listener) = loop {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            // The same number may be taken for TCP; another is not.
            if let Ok(listener) = TcpListener::bind(socket.local_addr().unwrap()).await {
                break (socket, listener);
            }
        };
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let state = Arc::new(State {
            reply: Box::new(reply),
            asked: Arc::clone(&asked),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(socket, Arc::clone(&state)));
        tasks.spawn(serve_tcp(listener, state));
        Self {
            address,
            asked,
            _tasks: tasks,
        }
    }

    /// Serves these records, and says of other names that they do not exist. It follows no aliases.
    pub async fn with(records: Vec<Record>) -> Self {
        Self::start(move |query, _| Some(from_records(query, &records).to_vec().unwrap())).await
    }

    /// The questions so far.
    pub fn asked(&self) -> Vec<(Query, Transport)> {
        self.asked.lock().unwrap().clone()
    }
}

struct State {
    reply: Box<Reply>,
    asked: Arc<Mutex<Vec<(Query, Transport)>>>,
}

impl State {
    fn reply(&self, query: &[u8], by: Transport) -> Option<Vec<u8>> {
        let query = Message::from_vec(query).unwrap();
        self.asked
            .lock()
            .unwrap()
            .push((query.queries[0].clone(), by));
        (self.reply)(&query, by)
    }
}

async fn serve_udp(socket: UdpSocket, state: Arc<State>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        if let Some(reply) = state.reply(&buffer[..length], Transport::Udp) {
            socket.send_to(&reply, from).await.unwrap();
        }
    }
}

async fn serve_tcp(listener: TcpListener, state: Arc<State>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let Ok(length) = stream.read_u16().await else {
            continue;
        };
        let mut query = vec![0; length.into()];
        stream.read_exact(&mut query).await.unwrap();
        if let Some(reply) = state.reply(&query, Transport::Tcp) {
            stream
                .write_u16(u16::try_from(reply.len()).unwrap())
                .await
                .unwrap();
            stream.write_all(&reply).await.unwrap();
        }
    }
}

/// The answer to a query, still without content.
pub fn reply_to(query: &Message, code: ResponseCode) -> Message {
    let mut reply = query.clone();
    reply.metadata.message_type = MessageType::Response;
    reply.metadata.recursion_available = true;
    reply.metadata.response_code = code;
    reply
}

pub fn from_records(query: &Message, records: &[Record]) -> Message {
    let question = &query.queries[0];
    let of_name: Vec<&Record> = records
        .iter()
        .filter(|record| record.name == *question.name())
        .collect();
    let mut reply = reply_to(
        query,
        if of_name.is_empty() {
            ResponseCode::NXDomain
        } else {
            ResponseCode::NoError
        },
    );
    let is_answer = |record: &&&Record| {
        [question.query_type(), RecordType::CNAME].contains(&record.record_type())
    };
    reply.answers = of_name
        .iter()
        .filter(is_answer)
        .map(|record| (*record).clone())
        .collect();
    reply
}

/// A fully qualified name.
pub fn dns_name(name: &str) -> Name {
    Name::from_ascii(format!("{name}.")).unwrap()
}

pub fn leads(name: &str, address: &str, ttl: u32) -> Record {
    Record::from_rdata(
        dns_name(name),
        ttl,
        RData::from(address.parse::<IpAddr>().unwrap()),
    )
}

pub fn alias(name: &str, of: &str) -> Record {
    record(name, RData::CNAME(CNAME(dns_name(of))))
}

pub fn record(name: &str, data: RData) -> Record {
    Record::from_rdata(dns_name(name), 120, data)
}
