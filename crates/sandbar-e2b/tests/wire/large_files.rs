//! Files larger than the memory limit of the host.

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::{
    client::{Sandbox, exchange},
    uploads::encoded,
    world::World,
};

const PIECE: usize = 1 << 20;

/// A gibibyte at full length; always more than may be in memory.
fn pieces() -> usize {
    usize::try_from(sandbar_testing::scaled(1 << 10, 1 << 7)).unwrap()
}

/// Limit of memory for the transfer.
const BOUND: u64 = 64 << 20;

/// Returns the peak resident memory of this process.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Endless deterministic noise.
fn noise() -> impl FnMut(usize) -> Bytes {
    let mut noise = blake3::Hasher::new().finalize_xof();
    move |length| {
        let mut bytes = vec![0; length];
        noise.fill(&mut bytes);
        bytes.into()
    }
}

/// Sends the noise in chunks, between two texts.
async fn send(
    sandbox: &Sandbox,
    path: &str,
    kind: &str,
    before: &'static str,
    after: &'static str,
) {
    let mut noise = noise();
    let pieces = (0..pieces()).map(move |_| noise(PIECE));
    let pieces = [Bytes::from(before)]
        .into_iter()
        .chain(pieces)
        .chain([after.into()]);
    let pieces = pieces.map(|piece| Ok::<_, std::io::Error>(Frame::data(piece)));
    let stream = TcpStream::connect(sandbox.address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let request = sandbox
        .request("POST", &format!("/files?path={}", encoded(path)))
        .header("content-type", kind);
    let answer = sender
        .send_request(request.body(StreamBody::new(stream::iter(pieces))).unwrap())
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    drop((sender, answer));
    connection.abort();
}

/// Reads the file back.
async fn expect_noise(sandbox: &Sandbox, path: &str) {
    let request = sandbox.request("GET", &format!("/files?path={}", encoded(path)));
    let mut exchange = exchange(sandbox.address, request.body(Full::default()).unwrap()).await;
    let (mut expected, mut read) = (noise(), 0);
    while let Some(frame) = exchange.response.body_mut().frame().await {
        let came = frame.unwrap().into_data().unwrap();
        assert!(
            came == expected(came.len()),
            "within {} bytes after {read}",
            came.len()
        );
        read += came.len();
    }
    assert_eq!(read, PIECE * pieces());
}

#[test]
fn a_large_file_goes_up_and_down_and_little_is_ever_in_memory() {
    World::run_with_pool(3072, async |world| {
        let sandbox = world.sandbox().await;
        sandbox.write("small", b"x").await;
        let before = peak();
        let part = "--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"form\"\r\n\r\n";
        for (path, kind, head, tail) in [
            ("raw", "application/octet-stream", "", ""),
            (
                "form",
                "multipart/form-data; boundary=frontier",
                part,
                "\r\n--frontier--\r\n",
            ),
        ] {
            send(&sandbox, path, kind, head, tail).await;
            assert_eq!(
                sandbox.entry(path).await["size"],
                (PIECE * pieces()).to_string()
            );
            expect_noise(&sandbox, path).await;
            let grown = peak() - before;
            assert!(grown < BOUND, "{path}: {} MiB", grown >> 20);
        }
    });
}

#[test]
fn http_2_upload_accepts_large_frames() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    World::run(async |world| {
        let mut connection = tokio::net::TcpStream::connect(world.address).await.unwrap();
        // The connection preface, and empty SETTINGS.
        connection
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await
            .unwrap();
        let mut head = [0; 9];
        connection.read_exact(&mut head).await.unwrap();
        let mut settings = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        connection.read_exact(&mut settings).await.unwrap();
        // SETTINGS_MAX_FRAME_SIZE is number 5.
        let told = settings
            .chunks(6)
            .find(|one| one[..2] == [0, 5])
            .expect("nothing about frames");
        assert_eq!(told[2..], (1u32 << 20).to_be_bytes());
    });
}
