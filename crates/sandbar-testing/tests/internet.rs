//! The internet of a test, tried from its host with the programs sessions use.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::{
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    process::{Command, Output},
};

use sandbar_testing::internet::{self, Answer, Internet, Page};

/// `curl` on the host, with the internet's resolver asked for by hand.
fn curl(internet: &Internet, arguments: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command
        .args(["-sS", "--max-time", "10", "--cacert"])
        .arg(internet.authority());
    for name in ["allowed.example", "other.example"] {
        for port in [80, 443] {
            command.args(["--resolve", &format!("{name}:{port}:{}", internet::WEB)]);
        }
    }
    command.args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn hosts_share_an_address_and_return_the_server_name() {
    let internet = Internet::start();
    assert_eq!(
        text(&curl(&internet, &["http://allowed.example/"])),
        "hello from allowed.example\n"
    );
    assert_eq!(
        text(&curl(&internet, &["https://allowed.example/"])),
        "hello from allowed.example\n"
    );
    let fronted = curl(
        &internet,
        &["-H", "Host: other.example", "https://allowed.example/"],
    );
    assert_eq!(text(&fronted), "hello from other.example\n");
    assert_eq!(
        text(&curl(&internet, &["-g", "http://[2001:db8::10]/"])),
        "hello from [2001:db8::10]\n"
    );
    let redirect = Page::redirect("https://other.example/there");
    internet
        .pages()
        .publish("allowed.example", "/away", redirect);
    let followed = curl(
        &internet,
        &["-L", "-H", "X-Mark: yes", "https://allowed.example/away"],
    );
    assert_eq!(text(&followed), "hello from other.example\n");
    let other = internet.received_by("other.example");
    let asked = other.iter().rfind(|heard| heard.is_request()).unwrap();
    assert_eq!(asked.header("x-mark"), Some("yes"));
    assert!(other.iter().any(|heard| heard.words == "a greeting of TLS"));
    assert!(internet.was_reached(internet::WEB) && internet.was_reached(internet::WEB_V6));
    assert!(
        !internet.was_reached(internet::ATTACKER)
            && internet.received_by("attacker.example").is_empty()
    );
}

#[test]
fn names_resolve_by_the_zone() {
    let internet = Internet::start();
    internet.zone().set(
        "turning.example",
        Answer::Turns(vec![
            "203.0.113.10".parse().unwrap(),
            "10.66.0.10".parse().unwrap(),
        ]),
    );
    internet
        .zone()
        .set("alias.example", Answer::Alias("six.example".into()));
    let ask = |name: &str, six: bool| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend(label.as_bytes());
        }
        query.extend([0, 0, if six { 28 } else { 1 }, 0, 1]);
        socket.send_to(&query, internet.dns_server()).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).unwrap();
        (
            answer[3] & 15,
            answer[7],
            answer[length - 4..length].to_vec(),
        )
    };
    assert_eq!(ask("allowed.example", false), (0, 1, vec![203, 0, 113, 10]));
    assert_eq!(ask("turning.example", false).2, [203, 0, 113, 10]);
    assert_eq!(ask("turning.example", false).2, [10, 66, 0, 10]);
    assert_eq!(ask("turning.example", false).2, [10, 66, 0, 10]);
    assert_eq!(ask("alias.example", true), (0, 2, vec![0, 0, 0, 0x10]));
    assert_eq!(ask("nobody.example", false).0, 3);
    assert_eq!(internet.received_by("nobody.example").len(), 1);
}

#[test]
fn servers_echo_speak_first_and_differ_on_the_host() {
    let internet = Internet::start();
    let hear = |place: (&str, u16), words: &str, answer: &str| {
        let mut stream = TcpStream::connect(place).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, answer);
    };
    hear((internet::ECHO, 9000), "hello", "hello");
    hear(
        (internet::SSH, 22),
        "hello",
        "SSH-2.0-internet_of_a_test\r\nhello",
    );
    for place in [
        "127.0.0.1",
        internet::HOST,
        internet::INTRANET,
        internet::ATTACKER_V6,
    ] {
        hear((place, 9000), place, place);
    }
    assert_eq!(
        internet.received_at("127.0.0.1").last().unwrap().words,
        "127.0.0.1"
    );
    assert!(internet.was_reached(internet::INTRANET) && !internet.was_reached(internet::METADATA));
    // Packets for the host itself never cross the wire.
    assert!(
        internet
            .packets()
            .iter()
            .all(|packet| packet.to.ip().to_string() != internet::HOST)
    );
}
