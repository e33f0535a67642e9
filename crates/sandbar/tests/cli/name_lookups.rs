//! Names are looked up without the C library, whose static form loads the machine's own
//! `libnss_*.so`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::Signal;
use sandbar_testing::{
    MotoS3, TestServer, TestServerOptions, eventually,
    tree::{Scratch, scratch},
};

use crate::world::{Said, World, binary, options};

/// Files that `getaddrinfo` and its kin open, as strace writes them.
const FILES_OF_THE_C_LIBRARY: [&str; 4] = [
    "/libnss_",
    "\"/etc/nsswitch.conf\"",
    "\"/etc/host.conf\"",
    "\"/etc/gai.conf\"",
];

/// The program under strace, and the files it has opened.
struct Traced {
    program: PathBuf,
    trace: PathBuf,
    _directory: Scratch,
}

impl Traced {
    fn new() -> Self {
        let directory = scratch();
        let program = directory.path().join("traced");
        let trace = directory.path().join("trace");
        // With `-D` the program keeps its parent and its pid, so that signals reach it and not
        // strace.
        let script = format!(
            "#!/bin/sh\nexec strace -D -f -e trace=%file -o '{}' '{}' \"$@\"\n",
            trace.display(),
            binary()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            program,
            trace,
            _directory: directory,
        }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.trace).unwrap_or_default()
    }

    /// Returns how often a file was opened or checked.
    fn touched(&self, path: &str) -> usize {
        self.text().matches(&format!("\"{path}\"")).count()
    }

    /// Waits for the last line about the process, and checks that it has left the files of the C
    /// library alone.
    #[track_caller]
    fn check_to_the_end_of(&self, pid: u32) {
        let end = format!("\n{pid} ");
        eventually("strace to see the end", || {
            self.text()
                .split(&end)
                .any(|rest| rest.trim_start().starts_with("+++ exited"))
        });
        let text = self.text();
        let forbidden: Vec<&str> = text
            .lines()
            .filter(|line| {
                FILES_OF_THE_C_LIBRARY
                    .iter()
                    .any(|file| line.contains(file))
            })
            .collect();
        assert!(forbidden.is_empty(), "{forbidden:#?}");
    }
}

fn run(traced: &Traced, data_dir: &Path, url: &str) -> Said {
    let token = fs::read_to_string(data_dir.join("token")).unwrap();
    let mut command = Command::new(&traced.program);
    command
        .arg("ls")
        .env("SANDBAR_DATA_DIR", data_dir)
        .env("SANDBAR_URL", url)
        .env("SANDBAR_TOKEN", token.trim());
    let child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let said = Said::from_output(child.wait_with_output().unwrap());
    traced.check_to_the_end_of(pid);
    said
}

#[test]
fn client_finds_a_host_by_name_without_nss() {
    let world = World::new();
    for name in ["localhost", "host.localhost"] {
        let traced = Traced::new();
        run(
            &traced,
            world.server.data_dir(),
            &world.server.url().replace("127.0.0.1", name),
        )
        .data();
        assert!(traced.touched("/etc/hosts") > 0, "{name}");
    }
    let traced = Traced::new();
    run(
        &traced,
        world.server.data_dir(),
        "http://no-such-host.invalid:9100",
    )
    .refused(1, &["no-such-host.invalid"]);
    assert!(traced.touched("/etc/resolv.conf") > 0);
}

/// Runs a host under strace. It must have read the hosts file, which an idle host does not.
fn with_traced_host(object_store: &str, work: impl FnOnce(&World)) {
    let (traced, data_dir) = (Traced::new(), scratch());
    // The first start copies `/etc` into the base of the host.
    assert!(
        TestServer::start_in(&options(), data_dir.path())
            .stop_with(Signal::TERM)
            .status
            .success()
    );
    let options = TestServerOptions::new(&traced.program)
        .argument("--storage")
        .argument("local-disk")
        .argument("--runtime")
        .argument("none")
        .variable("SANDBAR_OBJECT_STORE", object_store)
        .variable("AWS_ACCESS_KEY_ID", "test-key")
        .variable("AWS_SECRET_ACCESS_KEY", "test-secret");
    let world = World {
        server: TestServer::start_in(&options, data_dir.path()),
    };
    work(&world);
    let pid = world.server.pid();
    assert!(world.server.stop_with(Signal::TERM).status.success());
    traced.check_to_the_end_of(pid);
    assert!(traced.touched("/etc/hosts") > 0);
}

#[test]
fn host_finds_an_object_store_by_name_without_nss() {
    let moto = MotoS3::start();
    with_traced_host(
        &moto.location().replace("127.0.0.1", "localhost"),
        |world| {
            world.sandbox("box");
            world.run(["hibernate", "box"]).data();
            assert_ne!(moto.keys(), Vec::<String>::new());
        },
    );
}

#[test]
fn host_finds_a_registry_by_name_without_nss() {
    // An HTTP server that is no registry: its name has to be looked up to find that out.
    let moto = MotoS3::start();
    let location = moto.location();
    let port = location
        .split("127.0.0.1:")
        .nth(1)
        .unwrap()
        .split('&')
        .next()
        .unwrap();
    let packs = scratch();
    with_traced_host(&packs.path().display().to_string(), |world| {
        let image = format!("localhost:{port}/library/image:latest");
        world
            .run(["base", "import", "image", "--image", &image])
            .refused(1, &["library/image"]);
    });
}
