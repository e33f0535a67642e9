//! moto's S3 server: someone else's reading of the protocol, on loopback.

#![expect(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::process::{Signal, set_parent_process_death_signal};
use sandbar_storage::pack::{S3Target, Target};

use crate::{eventually, installed_python};

const BUCKET: &str = "packs";
const REGION: &str = "us-east-1";

/// A server with one empty bucket. It ends with the test.
#[derive(Debug)]
pub struct MotoS3 {
    address: SocketAddr,
    server: Child,
}

impl MotoS3 {
    pub fn start() -> Self {
        // moto needs a port number; the kernel chooses a free one.
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut command = Command::new(program());
        command.args(["-H", "127.0.0.1", "-p", &address.port().to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let server = command
            .spawn()
            .unwrap_or_else(|error| panic!("moto_server: {error}; `make setup-tests` installs it"));
        let moto = Self { address, server };
        eventually("moto to listen", || TcpStream::connect(address).is_ok());
        assert!(moto.request("PUT", "").starts_with("HTTP/1.1 200"));
        moto
    }

    /// Returns the `object_store` of a host for this bucket. Keys are in the environment.
    pub fn location(&self) -> String {
        format!(
            "s3://{BUCKET}?region={REGION}&endpoint=http://{}&allow_http=true",
            self.address
        )
    }

    pub fn target(&self) -> Target {
        Target::S3(S3Target {
            bucket: BUCKET.into(),
            region: Some(REGION.into()),
            endpoint: Some(format!("http://{}", self.address)),
            access_key_id: Some("test-key".into()),
            secret_access_key: Some("test-secret".into()),
            allow_http: true,
        })
    }

    /// Names of the objects in the bucket.
    pub fn keys(&self) -> Vec<String> {
        let listing = self.request("GET", "?list-type=2");
        let names = listing
            .split("<Key>")
            .skip(1)
            .filter_map(|rest| rest.split("</Key>").next());
        names.map(str::to_owned).collect()
    }

    /// Uploads that were begun and neither finished nor given up.
    pub fn open_uploads(&self) -> usize {
        self.request("GET", "?uploads").matches("<Upload>").count()
    }

    /// One request about the bucket, as plain as HTTP goes.
    fn request(&self, method: &str, query: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = format!(
            "{method} /{BUCKET}{query} HTTP/1.1\r\nHost: {}\r\n",
            self.address
        );
        write!(
            stream,
            "{head}Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for MotoS3 {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The one `scripts/setup.sh` installed, or the machine's own.
fn program() -> PathBuf {
    installed_python("bin/moto_server").unwrap_or_else(|| PathBuf::from("moto_server"))
}
