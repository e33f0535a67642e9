use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
};

use hickory_proto::{
    op::{Message, Query},
    rr::{RData, rdata::TXT},
};
use sandbar_testing::name_server::{
    TestNameServer, Transport, dns_name, from_records, leads, record, reply_to,
};
use tokio::net::UdpSocket;

use super::*;

fn upstream(servers: &[SocketAddr]) -> Upstream {
    Upstream::of_servers(servers.to_vec())
}

async fn ask(upstream: &Upstream) -> Result<Vec<IpAddr>, LookupError> {
    let answer = upstream.ask(&dns_name("a.example"), RecordType::A).await?;
    Ok(answer
        .records
        .iter()
        .filter_map(|record| record.data.ip_addr())
        .collect())
}

async fn replying(code: ResponseCode) -> TestNameServer {
    TestNameServer::start(move |query, _| Some(reply_to(query, code).to_vec().unwrap())).await
}

async fn good() -> TestNameServer {
    TestNameServer::with(vec![leads("a.example", "203.0.113.7", 60)]).await
}

#[tokio::test]
async fn server_that_cannot_answer_is_skipped() {
    let silent = TestNameServer::start(|_, _| None).await;
    let failing = replying(ResponseCode::ServFail).await;
    let refusing = replying(ResponseCode::Refused).await;
    let good = good().await;
    let upstream = upstream(&[
        failing.address,
        refusing.address,
        silent.address,
        good.address,
    ]);
    assert_eq!(
        ask(&upstream).await.unwrap(),
        ["203.0.113.7".parse::<IpAddr>().unwrap()]
    );
    assert_eq!(
        (
            failing.asked().len(),
            refusing.asked().len(),
            good.asked().len()
        ),
        (1, 1, 1)
    );
    // The server that did not answer is now the last one, so that it is not queried.
    let before = silent.asked().len();
    assert!(before >= 1);
    upstream
        .ask(&dns_name("b.example"), RecordType::A)
        .await
        .unwrap();
    assert_eq!((silent.asked().len(), good.asked().len()), (before, 2));
}

#[tokio::test]
async fn first_server_that_answers_decides() {
    let missing = TestNameServer::with(vec![]).await;
    let good = good().await;
    let upstream = upstream(&[missing.address, good.address]);
    assert_eq!(
        upstream
            .ask(&dns_name("a.example"), RecordType::A)
            .await
            .unwrap(),
        Answer::default()
    );
    assert_eq!(good.asked(), []);
}

#[tokio::test]
async fn failure_of_every_server_says_why() {
    let failing = replying(ResponseCode::ServFail).await;
    let upstream = upstream(&[failing.address]);
    let error = ask(&upstream).await.unwrap_err();
    assert!(
        error.to_string().contains(&failing.address.to_string()),
        "{error}"
    );
    assert_eq!(failing.asked().len(), upstream.current().conf.attempts);
    ask(&self::upstream(&[])).await.unwrap_err();
}

#[tokio::test]
async fn truncated_answer_is_asked_for_again_by_tcp() {
    let texts: Vec<_> = (0..20)
        .map(|_| record("a.example", RData::TXT(TXT::new(vec!["x".repeat(100)]))))
        .collect();
    let server = TestNameServer::start(move |query, by| {
        let reply = from_records(query, &texts);
        Some(
            if by == Transport::Udp {
                reply.truncate()
            } else {
                reply
            }
            .to_vec()
            .unwrap(),
        )
    })
    .await;
    let answer = upstream(&[server.address])
        .ask(&dns_name("a.example"), RecordType::TXT)
        .await
        .unwrap();
    assert_eq!(answer.records.len(), 20);
    let question = Query::query(dns_name("a.example"), RecordType::TXT);
    assert_eq!(
        server.asked(),
        [
            (question.clone(), Transport::Udp),
            (question, Transport::Tcp)
        ]
    );
}

#[tokio::test]
async fn large_answer_needs_no_tcp() {
    let records: Vec<_> = (0..40)
        .map(|number| leads("a.example", &format!("203.0.113.{number}"), 60))
        .collect();
    let server = TestNameServer::with(records).await;
    assert_eq!(ask(&upstream(&[server.address])).await.unwrap().len(), 40);
    assert_eq!(server.asked().len(), 1);
}

/// Forged answers are ignored: another id, another question, another sender.
#[tokio::test]
async fn forged_answers_are_ignored() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    let server = async {
        let mut buffer = [0; 512];
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        let query = Message::from_vec(&buffer[..length]).unwrap();
        let good = from_records(&query, &[leads("a.example", "203.0.113.7", 60)]);
        let mut forged = from_records(&query, &[leads("a.example", "198.51.100.1", 60)]);
        forged.metadata.id = good.id.wrapping_add(1);
        socket
            .send_to(&forged.to_vec().unwrap(), from)
            .await
            .unwrap();
        forged.metadata.id = good.id;
        let elsewhere = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        elsewhere
            .send_to(&forged.to_vec().unwrap(), from)
            .await
            .unwrap();
        forged.queries = vec![Query::query(dns_name("b.example"), RecordType::A)];
        socket
            .send_to(&forged.to_vec().unwrap(), from)
            .await
            .unwrap();
        forged.queries.clear();
        socket
            .send_to(&forged.to_vec().unwrap(), from)
            .await
            .unwrap();
        socket.send_to(b"nonsense", from).await.unwrap();
        socket.send_to(&good.to_vec().unwrap(), from).await.unwrap();
    };
    let upstream = upstream(&[address]);
    let (answer, ()) = futures::join!(ask(&upstream), server);
    assert_eq!(answer.unwrap(), ["203.0.113.7".parse::<IpAddr>().unwrap()]);
}

#[tokio::test]
async fn change_of_resolv_conf_takes_effect_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("resolv.conf");
    fs::write(&path, "nameserver 192.0.2.1\n").unwrap();
    let upstream = Upstream::of_file(path.clone());
    assert_eq!(
        upstream.current().conf.servers,
        ["192.0.2.1:53".parse().unwrap()]
    );
    fs::write(&path, "nameserver 192.0.2.77\n").unwrap();
    assert_eq!(
        upstream.current().conf.servers,
        ["192.0.2.77:53".parse().unwrap()]
    );
}
