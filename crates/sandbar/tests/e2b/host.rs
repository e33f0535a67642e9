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

/// How the SDK is pointed at the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// By two URLs, over plain HTTP.
    Plain,
    /// By a domain, over TLS, with names the host itself answers for.
    Domain,
}

/// A file of `tests/e2b`.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2b").join(name)
}

/// Has a program drive a host of its own. It fails when a case does, and says which.
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
    // For programs that use the host's own API.
    let token = fs::read_to_string(server.data_dir().join("token")).unwrap();
    program.env("SANDBAR", BINARY).env("URL", server.url()).env("TOKEN", token.trim());
    // A proxy of the developer's is for the world, and this host is not there.
    for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        program.env_remove(name);
    }
    let output = program.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let host = server.said();
    assert!(output.status.success(), "{}:\n{said}\n{complained}\nthe host said:\n{host}", output.status);
    // Which cases it skipped, and how long each took, for who asks with `--no-capture`.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
}

/// Storage with snapshots that cost nothing, isolation, and little room for each sandbox, so that it can be filled.
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

/// An address of the loopback for the name server of this test alone: resolvers know no other port than 53.
fn name_server() -> Ipv4Addr {
    let [high, low, ..] = std::process::id().to_le_bytes();
    Ipv4Addr::new(127, 53, high, low.max(1))
}

/// What a user's shell has after `eval "$(sandbar env)"`.
fn variables(server: &TestServer) -> BTreeMap<String, String> {
    let output = server.client(["env", "--json"]).output().unwrap();
    let variables: BTreeMap<String, Option<String>> = serde_json::from_slice(&output.stdout).unwrap();
    variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The same program where the host's names are known: in a mount namespace with a `resolv.conf` of its own, which is gone
/// with the program.
fn with_names(server: &TestServer, program: &Command) -> Command {
    let file = server.data_dir().join("resolv.conf");
    fs::write(&file, format!("nameserver {}\n", name_server())).unwrap();
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--mount", "--propagation", "private", "sh", "-c"]);
    wrapped.arg("mount --bind -o ro \"$0\" /etc/resolv.conf && exec \"$@\"").arg(file);
    wrapped.arg(program.get_program()).args(program.get_args());
    wrapped.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    wrapped
}
