//! Certificates by `openssl`, checked by `curl`: neither shares code with the server.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use sandbar_server::{TlsConfig, TlsIdentity};
use tempfile::TempDir;

use crate::world::World;

/// CA in a directory of its own.
pub(crate) struct Authority {
    directory: TempDir,
}

/// Certificate and key.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let authority = Self {
            directory: TempDir::new().unwrap(),
        };
        let mut command = Command::new("openssl");
        // The system's configuration would add extensions.
        command.args([
            "req",
            "-x509",
            "-config",
            "/dev/null",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ]);
        command.args([
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=authority of a test",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ]);
        command.args([
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign",
        ]);
        authority.run(command);
        authority
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Issues a server certificate for this machine.
    pub(crate) fn server(&self, name: &str) -> Pair {
        self.sign(name, "1", "serverAuth")
    }

    /// Issues a server certificate that expired yesterday.
    pub(crate) fn expired_server(&self) -> Pair {
        self.sign("expired", "-1", "serverAuth")
    }

    pub(crate) fn client(&self, name: &str) -> Pair {
        self.sign(name, "1", "clientAuth")
    }

    /// Issues a client certificate that expired yesterday.
    pub(crate) fn expired_client(&self) -> Pair {
        self.sign("expired-client", "-1", "clientAuth")
    }

    fn sign(&self, name: &str, days: &str, usage: &str) -> Pair {
        let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
        let mut request = Command::new("openssl");
        request.args([
            "req",
            "-new",
            "-config",
            "/dev/null",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ]);
        request.args([
            "-nodes",
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &key,
            "-out",
            "request.pem",
        ]);
        request.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
        request.args(["-addext", &format!("extendedKeyUsage={usage}")]);
        self.run(request);
        let mut signing = Command::new("openssl");
        signing.args([
            "x509",
            "-req",
            "-in",
            "request.pem",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-days",
            days,
        ]);
        signing.args(["-copy_extensions", "copy", "-out", &certificate]);
        self.run(signing);
        Pair {
            certificate: self.path(&certificate),
            key: self.path(&key),
        }
    }

    fn run(&self, mut command: Command) {
        let output = command.current_dir(self.directory.path()).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

impl Pair {
    /// Returns the TLS configuration with these files.
    pub(crate) fn tls(&self) -> TlsConfig {
        let identity = TlsIdentity::Files {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        };
        TlsConfig {
            identity,
            client_ca: None,
        }
    }

    /// Replaces other files by these atomically, as a renewal does.
    pub(crate) fn put_in_place_of(&self, other: &Self) {
        for (from, to) in [
            (&self.key, &other.key),
            (&self.certificate, &other.certificate),
        ] {
            let new = to.with_extension("new");
            std::fs::copy(from, &new).unwrap();
            std::fs::rename(&new, to).unwrap();
        }
    }
}

/// Output of `curl`.
#[derive(Debug)]
pub(crate) struct Curled {
    /// Exit code: 60 is an untrusted certificate.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `curl` with these arguments.
pub(crate) fn curl<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Curled {
    let mut command = Command::new("curl");
    command
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "30",
            "--noproxy",
            "*",
        ])
        .args(arguments);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Curled {
        code: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

impl World {
    /// Returns the `https://` URL of a path.
    pub(crate) fn https(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// Requests `/readyz` with this CA and further arguments of `curl`.
    pub(crate) fn curl(&self, trusting: &Path, more: &[&str]) -> Curled {
        let url = self.https("/readyz");
        curl(
            ["--cacert", trusting.to_str().unwrap(), &url]
                .into_iter()
                .chain(more.iter().copied()),
        )
    }
}
