//! Asking other servers.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    sync::Semaphore,
    time::timeout,
};

use super::{
    message::{Message, Question, code, flag},
    servers::Servers,
};

/// How long one server gets for one try.
const PATIENCE: Duration = Duration::from_secs(2);
const ROUNDS: usize = 2;
/// Questions at once, so that sessions cannot use up the host's descriptors.
const MOST_AT_ONCE: usize = 1024;
const MOST_DATAGRAM: usize = 4096;

/// The servers the gateway asks.
#[derive(Debug)]
pub(super) struct Upstream {
    servers: Servers,
    places: Semaphore,
}

impl Upstream {
    pub(super) const fn new(servers: Servers) -> Self {
        Self { servers, places: Semaphore::const_new(MOST_AT_ONCE) }
    }

    /// Asks one server after the other until one knows, be it that there is no such name. The error says why none did.
    pub(super) async fn ask(&self, question: &Question) -> Result<Message, String> {
        let Ok(Ok(_place)) = timeout(PATIENCE, self.places.acquire()).await else {
            return Err("too many names are being looked up".to_owned());
        };
        let mut failure = "there is no server to ask".to_owned();
        for _ in 0..ROUNDS {
            for server in self.servers.current().iter() {
                failure = match timeout(PATIENCE, ask_one(*server, question)).await {
                    Ok(Ok(answer)) => match answer.head.code() {
                        code::NO_ERROR | code::NO_SUCH_NAME => return Ok(answer),
                        code => format!("{server} answered with code {code}"),
                    },
                    Ok(Err(error)) => format!("{server}: {error}"),
                    Err(_) => format!("{server} did not answer"),
                };
            }
        }
        Err(failure)
    }
}

/// By UDP, and again by TCP when the answer does not fit.
async fn ask_one(server: SocketAddr, question: &Question) -> io::Result<Message> {
    let answer = ask_by_udp(server, question).await?;
    if answer.head.has(flag::TRUNCATED) { ask_by_tcp(server, question).await } else { Ok(answer) }
}

async fn ask_by_udp(server: SocketAddr, question: &Question) -> io::Result<Message> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // The kernel picks a port nobody can guess, and passes nothing on that comes from elsewhere.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    let query = Message::query(random_id()?, question.clone());
    socket.send(&query.write()).await?;
    let mut buffer = [0; MOST_DATAGRAM];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Anybody may have sent something else: the true answer can still come.
        if let Some(answer) = answer_to(&query, &buffer[..length]) {
            return Ok(answer);
        }
    }
}

async fn ask_by_tcp(server: SocketAddr, question: &Question) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let query = Message::query(random_id()?, question.clone());
    let message = query.write();
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), message.as_slice()].concat()).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    answer_to(&query, &answer)
        .filter(|answer| !answer.head.has(flag::TRUNCATED))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is malformed"))
}

/// The message, if it answers just this.
fn answer_to(query: &Message, bytes: &[u8]) -> Option<Message> {
    let is_response = |message: &Message| message.head.has(flag::RESPONSE) && !message.head.has(flag::OPERATION);
    Message::read(bytes)
        .filter(|answer| is_response(answer) && answer.head.id == query.head.id && answer.question == query.question)
}

fn random_id() -> io::Result<u16> {
    let mut bytes = [0; 2];
    aws_lc_rs::rand::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u16::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dns::{
        record::kind,
        test_server::{By, TestServer, from_records, leads, record, reply_to, wire},
    };

    fn upstream(servers: &[SocketAddr]) -> Upstream {
        Upstream::new(Servers::Fixed(Arc::new(servers.to_vec())))
    }

    fn question() -> Question {
        Question::about(wire("a.example"), kind::A)
    }

    /// A port where nobody is.
    async fn nobody() -> SocketAddr {
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn a_server_that_cannot_answer_is_passed_over() {
        let silent = TestServer::start(|_, _| None).await;
        let failing = TestServer::start(|query, _| Some(reply_to(query, code::SERVER_FAILURE).write())).await;
        let refusing = TestServer::start(|query, _| Some(reply_to(query, code::REFUSED).write())).await;
        let good = TestServer::with(vec![leads("a.example", "203.0.113.7", 60)]).await;
        let servers = [nobody().await, failing.address, refusing.address, silent.address, good.address];
        let answer = upstream(&servers).ask(&question()).await.unwrap();
        assert_eq!(answer.answers, [leads("a.example", "203.0.113.7", 60)]);
        assert_eq!((failing.asked().len(), refusing.asked().len(), silent.asked().len()), (1, 1, 1));
    }

    #[tokio::test]
    async fn when_no_server_answers_the_error_says_why() {
        let failing = TestServer::start(|query, _| Some(reply_to(query, code::SERVER_FAILURE).write())).await;
        let error = upstream(&[nobody().await, failing.address]).ask(&question()).await.unwrap_err();
        assert!(error.contains("code 2"), "{error}");
        assert_eq!(failing.asked().len(), ROUNDS);
        assert!(upstream(&[]).ask(&question()).await.is_err());
    }

    #[tokio::test]
    async fn that_there_is_no_such_name_is_an_answer() {
        let server = TestServer::with(vec![]).await;
        let answer = upstream(&[server.address, nobody().await]).ask(&question()).await.unwrap();
        assert_eq!(answer.head.code(), code::NO_SUCH_NAME);
    }

    #[tokio::test]
    async fn an_answer_that_was_cut_is_asked_for_again_by_tcp() {
        let texts: Vec<_> = (0..20).map(|_| record("a.example", kind::TXT, &[100; 101])).collect();
        let server = TestServer::start(move |query, by| {
            let mut reply = from_records(query, &texts);
            if by == By::Udp {
                // As real servers do it: the flag, and a message that ends anywhere.
                reply.head.flags |= flag::TRUNCATED;
                return Some(reply.write()[..512].to_vec());
            }
            Some(reply.write())
        })
        .await;
        let question = Question::about(wire("a.example"), kind::TXT);
        let answer = upstream(&[server.address]).ask(&question).await.unwrap();
        assert_eq!(answer.answers.len(), 20);
        assert_eq!(server.asked(), [(question.clone(), By::Udp), (question, By::Tcp)]);
    }

    /// Of what a forger sends nothing counts: not another id, not another question, not a query.
    #[tokio::test]
    async fn only_the_answer_to_the_question_counts() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let server = async {
            let mut buffer = [0; 512];
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let query = Message::read(&buffer[..length]).unwrap();
            let good = from_records(&query, &[leads("a.example", "203.0.113.7", 60)]);
            let mut forged = from_records(&query, &[leads("a.example", "198.51.100.1", 60)]);
            forged.head.id = forged.head.id.wrapping_add(1);
            socket.send_to(&forged.write(), from).await.unwrap();
            forged.head.id = good.head.id;
            forged.question = Some(Question::about(wire("b.example"), kind::A));
            socket.send_to(&forged.write(), from).await.unwrap();
            forged.question = None;
            socket.send_to(&forged.write(), from).await.unwrap();
            socket.send_to(&query.write(), from).await.unwrap();
            socket.send_to(b"nonsense", from).await.unwrap();
            let elsewhere = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            forged.question = good.question.clone();
            elsewhere.send_to(&forged.write(), from).await.unwrap();
            socket.send_to(&good.write(), from).await.unwrap();
        };
        let upstream = upstream(&[address]);
        let question = question();
        let (answer, ()) = futures::join!(upstream.ask(&question), server);
        assert_eq!(answer.unwrap().answers, [leads("a.example", "203.0.113.7", 60)]);
    }
}
