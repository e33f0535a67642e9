//! Real clients: curl, Python and Node.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]

use std::{net::SocketAddr, process::Stdio};

use tokio::process::Command;

use super::{
    super::Origin,
    servers::{self, Offers},
    world::{SECRET, World, with_secret},
};

/// Runs a program and returns its output; `None` when it is not installed.
async fn run(case: &str, words: &[&str], trust: &std::path::Path) -> Option<String> {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
        .env("NODE_EXTRA_CA_CERTS", trust)
        .env("SSL_CERT_FILE", trust);
    for name in [
        "http_proxy",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ] {
        command.env_remove(name);
    }
    match command.output().await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            sandbar_testing::report_skip(case, &format!("`{}` is not installed", words[0]));
            None
        }
        output => {
            let output = output.unwrap();
            let text =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "{words:?}: {text}");
            Some(text)
        }
    }
}

struct Intercepted {
    world: World,
    address: SocketAddr,
}

async fn intercepted(offers: Offers) -> Intercepted {
    let world = World::new(with_secret("api.example"));
    let server = servers::tls(&world, "api.example", offers).await;
    world.leads("api.example", server.address);
    let address = world.intercepted("api.example").await;
    Intercepted { world, address }
}

#[tokio::test]
async fn curl_trusts_the_session_ca_with_http1_and_http2() {
    for (version, first) in [
        ("--http1.1", "GET /x HTTP/1.1"),
        ("--http2", "GET https://api.example/x HTTP/2.0"),
    ] {
        let Intercepted { world, address } = intercepted(if version == "--http2" {
            Offers::Http2
        } else {
            Offers::Http1
        })
        .await;
        let trust = world.trust();
        let to = format!("api.example:443:127.0.0.1:{}", address.port());
        let words = [
            "curl",
            "-sv",
            version,
            "--cacert",
            trust.to_str().unwrap(),
            "--connect-to",
            &to,
        ];
        let words = [
            &words[..],
            &["https://api.example/x", "https://api.example/y"],
        ]
        .concat();
        let Some(said) = run("curl_trusts_the_session_ca", &words, &trust).await else {
            return;
        };
        assert!(
            said.contains(first) && said.contains("authorization: Bearer THE-SECRET"),
            "{said}"
        );
        assert!(!said.contains(SECRET), "{said}");
        assert_eq!(world.decided(), ["allow tls api.example:443 key"]);
    }
}

#[tokio::test]
async fn curl_receives_the_refusal_of_the_proxy() {
    let world = World::new("allow=a.example".parse().unwrap());
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    let proxy = format!("http://{}", world.listen(Origin::Explicit).await);
    let words = [
        "curl",
        "-s",
        "--proxy",
        &proxy,
        "http://a.example/x",
        "http://b.example/",
    ];
    let Some(said) = run("curl_uses_the_proxy", &words, &world.trust()).await else {
        return;
    };
    assert!(
        said.contains("GET /x HTTP/1.1\nhost: a.example\n"),
        "{said}"
    );
    assert!(
        said.contains("sandbar: b.example:80 may not be reached: not in the allow list\n"),
        "{said}"
    );
}

#[tokio::test]
async fn curl_bodies_are_forwarded_unchanged() {
    let Intercepted { world, address } = intercepted(Offers::Http1).await;
    let trust = world.trust();
    let to = format!("api.example:443:127.0.0.1:{}", address.port());
    let upload = world.directory.path().join("upload");
    let content = "0123456789abcdef".repeat(128 * 1024);
    std::fs::write(&upload, &content).unwrap();
    let upload = upload.to_str().unwrap();
    let common = [
        "curl",
        "-s",
        "--cacert",
        trust.to_str().unwrap(),
        "--connect-to",
        &to,
    ];
    for how in [
        ["--http1.1", "-T", upload].as_slice(),
        &["--http2", "-T", upload],
        &[
            "--http1.1",
            "-H",
            "Transfer-Encoding: chunked",
            "-T",
            upload,
        ],
        &["--http1.1", "-H", "Expect: 100-continue", "-T", upload],
    ] {
        let words = [&common[..], how, &["https://api.example/same"]].concat();
        let Some(said) = run("curl_sends_and_gets_bodies", &words, &trust).await else {
            return;
        };
        assert!(said == content, "{how:?}: {} bytes", said.len());
    }
}

#[tokio::test]
async fn python_trusts_the_session_ca() {
    let Intercepted { world, address } = intercepted(Offers::Http1).await;
    let script = format!(
        "import http.client, socket, ssl\n\
         c = http.client.HTTPSConnection('api.example', 443, context=ssl.create_default_context())\n\
         c.sock = c._context.wrap_socket(socket.create_connection(('127.0.0.1', {})), server_hostname='api.example')\n\
         for path in ('/x', '/y'):\n\
         \x20   c.request('GET', path, headers={{'Authorization': 'mine'}})\n\
         \x20   print(c.getresponse().read().decode())\n",
        address.port()
    );
    let Some(said) = run("python_trusts", &["python3", "-c", &script], &world.trust()).await else {
        return;
    };
    assert!(
        said.contains("GET /x HTTP/1.1") && said.contains("GET /y HTTP/1.1"),
        "{said}"
    );
    assert!(
        said.contains("authorization: Bearer THE-SECRET") && !said.contains("mine"),
        "{said}"
    );
}

#[tokio::test]
async fn node_trusts_the_session_ca() {
    let Intercepted { world, address } = intercepted(Offers::Http1).await;
    let script = format!(
        "const https = require('https');
         const o = {{ host: '127.0.0.1', port: {}, servername: 'api.example', path: '/x', method: 'POST',
                      headers: {{ host: 'api.example' }} }};
         const r = https.request(o, s => {{ console.log(s.statusCode); s.pipe(process.stdout); }});
         r.write('a'); r.end('b');",
        address.port()
    );
    let Some(said) = run("node_trusts", &["node", "-e", &script], &world.trust()).await else {
        return;
    };
    assert!(said.starts_with("200\nPOST /x HTTP/1.1\n"), "{said}");
    assert!(
        said.contains("transfer-encoding: chunked")
            && said.contains("authorization: Bearer THE-SECRET"),
        "{said}"
    );
}
