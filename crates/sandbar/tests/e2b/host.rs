//! A host for one SDK, in plain and in domain mode.

use std::{
    collections::BTreeMap,
    fs,
    net::Ipv4Addr,
    path::PathBuf,
    process::{Command, Stdio},
};

use sandbar_testing::{TestServer, TestServerOptions};

const BINARY: &str = env!("CARGO_BIN_EXE_sandbar");
const DOMAIN: &str = "sbx.test";

/// Configuration of the SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Two URLs, plain HTTP.
    Plain,
    /// A domain, TLS, and the host's own name server.
    Domain,
}

/// Returns a file of `tests/e2b`.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/e2b")
        .join(name)
}

/// Runs a program against a host of its own. It fails with the first failed case.
#[track_caller]
pub(crate) fn drive(mode: Mode, program: Command) {
    let server = start(mode);
    let mut program = match mode {
        Mode::Plain => program,
        Mode::Domain => with_names(&server, &program),
    };
    for (name, value) in variables(&server) {
        program.env(name, value);
    }
    // For programs that also use the Sandbar API.
    let token = fs::read_to_string(server.data_dir().join("token")).unwrap();
    program
        .env("SANDBAR", BINARY)
        .env("URL", server.url())
        .env("TOKEN", token.trim());
    // A proxy in the environment must not be used for this host.
    for name in [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ] {
        program.env_remove(name);
    }
    let output = program
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let host = server.said();
    assert!(
        output.status.success(),
        "{}:\n{said}\n{complained}\nthe host said:\n{host}",
        output.status
    );
    // Skipped cases and durations, visible with `--no-capture`.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
}

/// Options of a host with cheap snapshots, isolation, and a small quota that a test can exhaust.
fn start(mode: Mode) -> TestServer {
    let mut options = TestServerOptions::new(BINARY);
    let mut arguments = vec!["--storage", "btrfs", "--runtime", "native"];
    let dns = format!("{}:53", name_server());
    if mode == Mode::Domain {
        arguments.extend(["--tls", "auto", "--domain", DOMAIN, "--dns", &dns]);
    }
    for argument in arguments {
        options = options.argument(argument);
    }
    TestServer::start(&options.variable("SANDBAR_DEFAULT_SESSION_QUOTA", "200M"))
}

/// Returns a loopback address for the name server of this test: resolvers only use port 53.
fn name_server() -> Ipv4Addr {
    let [high, low, ..] = std::process::id().to_le_bytes();
    Ipv4Addr::new(127, 53, high, low.max(1))
}

/// Returns the environment after `eval "$(sandbar env)"`.
fn variables(server: &TestServer) -> BTreeMap<String, String> {
    let output = server.client(["env", "--json"]).output().unwrap();
    let variables: BTreeMap<String, Option<String>> =
        serde_json::from_slice(&output.stdout).unwrap();
    variables
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Runs the program in a mount namespace with a `resolv.conf` that names the host's name server.
fn with_names(server: &TestServer, program: &Command) -> Command {
    let file = server.data_dir().join("resolv.conf");
    fs::write(&file, format!("nameserver {}\n", name_server())).unwrap();
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--mount", "--propagation", "private", "sh", "-c"]);
    wrapped
        .arg("mount --bind -o ro \"$0\" /etc/resolv.conf && exec \"$@\"")
        .arg(file);
    wrapped.arg(program.get_program()).args(program.get_args());
    wrapped.envs(
        program
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    wrapped
}
