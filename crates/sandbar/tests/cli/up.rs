//! `up`: starting, refusing to start, stopping.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use sandbar_testing::{TestServer, eventually, tree::scratch};

use crate::world::{Said, World, alone, alone_command, binary, options, options_with};

#[test]
fn up_prints_choices_address_and_first_commands() {
    let world = World::new();
    let finished = world.server.stop_with(Signal::TERM);
    assert_eq!(finished.status.code(), Some(0), "{}", finished.said);
    for part in [
        "  storage  local-disk — ",
        "  runtime  none — ",
        "note: commands are not isolated",
        "listening on http://127.0.0.1:",
        "in another terminal:",
    ] {
        assert!(
            finished.said.contains(part),
            "{part:?} is not in {}",
            finished.said
        );
    }
    let next = format!("{} run -- sh -c", binary());
    assert!(
        finished.said.contains(&next),
        "{next:?} is not in {}",
        finished.said
    );
}

#[test]
fn host_raises_its_file_limit_and_commands_keep_theirs() {
    // Set for this process and inherited by the host.
    let own = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(512),
            ..own
        },
    )
    .unwrap();
    let world = World::new();
    world.sandbox("box");
    let limits = fs::read_to_string(format!("/proc/{}/limits", world.server.pid())).unwrap();
    let open_files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let most = own
        .maximum
        .map_or("unlimited".to_owned(), |most| most.to_string());
    let values: Vec<&str> = open_files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(values, [&*most, &*most], "{open_files}");
    assert_eq!(world.shell("box", "ulimit -n").trim(), "512");
}

#[test]
fn the_token_is_private_and_needed() {
    let world = World::new();
    let token = world.server.data_dir().join("token");
    assert_eq!(
        fs::metadata(&token).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let elsewhere = scratch();
    let ask = |token: Option<&str>| {
        let mut command = world.server.client(["--url", world.server.url(), "ls"]);
        command.env("SANDBAR_DATA_DIR", elsewhere.path());
        command.envs(token.map(|token| ("SANDBAR_TOKEN", token)));
        command.output().unwrap()
    };
    for wrong in [None, Some("wrong")] {
        let refused = ask(wrong);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("SANDBAR_TOKEN"), "{stderr}");
    }
    let right = fs::read_to_string(&token).unwrap();
    assert_eq!(ask(Some(right.trim())).status.code(), Some(0));
}

#[test]
fn second_host_on_the_same_data_is_refused() {
    let world = World::new();
    world.sandbox("box");
    let second = options().command(world.server.data_dir()).output().unwrap();
    let stderr = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("error: ") && stderr.contains(world.server.data_dir().to_str().unwrap()),
        "{stderr}"
    );
    assert_eq!(world.ids(), ["box"]);
}

#[test]
fn taken_port_is_refused_with_a_hint() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = scratch();
    let address = taken.local_addr().unwrap().to_string();
    let said = alone([
        "up",
        "--listen",
        &address,
        "--storage",
        "local-disk",
        "--runtime",
        "none",
        "--data-dir",
        directory.path().to_str().unwrap(),
    ]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr.contains(&address) && said.stderr.contains("--listen"),
        "{said:?}"
    );
}

#[test]
fn sessions_survive_a_restart() {
    let directory = scratch();
    let first = World {
        server: TestServer::start_in(&options(), directory.path()),
    };
    first.sandbox("box");
    first.shell("box", "echo kept > file");
    first.run(["snapshot", "box", "one"]).data();
    assert_eq!(first.server.stop_with(Signal::INT).status.code(), Some(0));
    let second = World {
        server: TestServer::start_in(&options(), directory.path()),
    };
    assert_eq!(second.ids(), ["box"]);
    assert_eq!(second.run(["snapshots", "box", "-q"]).data(), "one\n");
    assert_eq!(second.shell("box", "cat file"), "kept\n");
}

#[test]
fn stopped_host_leaves_no_mount_loop_device_or_process() {
    let directory = scratch();
    let world = World {
        server: TestServer::start_in(&options_with("btrfs"), directory.path()),
    };
    world.sandbox("box");
    let mut running = world
        .server
        .client(["exec", "box", "--", "sh", "-c", "echo $$; exec sleep 600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(running.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    assert!(
        fs::exists(format!("/proc/{pid}")).unwrap(),
        "the command runs"
    );
    let path = directory.path().to_str().unwrap();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(
        !mounts().contains(path),
        "mounts of the host are visible outside"
    );
    let finished = world.server.stop_with(Signal::TERM);
    assert_eq!(finished.status.code(), Some(0), "{}", finished.said);
    running.wait().unwrap();
    eventually("the command ends", || {
        !fs::exists(format!("/proc/{pid}/exe")).unwrap()
    });
    eventually("the loop device is released", || {
        !loop_devices().contains(path)
    });
    assert!(!mounts().contains(path));
    assert!(
        !directory.path().join("address").exists(),
        "the address file is left"
    );
}

fn loop_devices() -> String {
    String::from_utf8_lossy(&Command::new("losetup").arg("-a").output().unwrap().stdout)
        .into_owned()
}

#[test]
fn plain_http_beyond_loopback_is_refused() {
    let said = alone(["up", "--listen", "0.0.0.0:0", "--data-dir", "/proc/never"]);
    said.refused(2, &["0.0.0.0:0", "TLS", "--insecure"]);
}

#[test]
fn configuration_mistakes_are_refused_with_a_hint() {
    let directory = scratch();
    let file = directory.path().join("sandbar.toml");
    let data = directory.path().join("data");
    let up = |content: &str| {
        fs::write(&file, content).unwrap();
        alone([
            "up",
            "--config",
            file.to_str().unwrap(),
            "--data-dir",
            data.to_str().unwrap(),
        ])
    };
    up("max_session = 3").refused(2, &["max_session", "did you mean `max_sessions`?"]);
    up("max_sessions = \"many\"").refused(2, &["max_sessions", "sandbar.toml"]);
    up("max_sessions = = 3").refused(2, &["line 1"]);
    up("storage_backend = \"floppy\"").refused(2, &["storage_backend"]);
    alone(["up", "--config", "/no/such/file.toml"]).refused(2, &["/no/such/file.toml"]);
    alone([
        "up",
        "--storage",
        "floppy",
        "--data-dir",
        data.to_str().unwrap(),
    ])
    .refused(2, &["--storage"]);
    alone([
        "up",
        "--runtime",
        "floppy",
        "--data-dir",
        data.to_str().unwrap(),
    ])
    .refused(2, &["--runtime", "gvisor, native"]);
    assert!(!data.exists(), "a refused host created its data directory");
}

#[test]
fn unwritable_data_directory_is_refused_with_a_hint() {
    let said = alone([
        "up",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        "/proc/nowhere",
    ]);
    said.refused(1, &["/proc/nowhere", "--data-dir"]);
}

#[test]
fn missing_named_storage_is_an_error() {
    let directory = scratch();
    let data = directory.path().join("data");
    let path = data.to_str().unwrap();
    let named = ["--storage", "zfs", "--runtime", "none"];
    alone(
        ["up", "--listen", "127.0.0.1:0", "--data-dir", path]
            .iter()
            .chain(&named),
    )
    .refused(1, &["pool"]);
}

#[test]
fn missing_named_runtime_is_an_error() {
    let directory = scratch();
    let data = directory.path().join("data");
    let path = data.to_str().unwrap();
    let mut command = alone_command([
        "up",
        "--runtime",
        "gvisor",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        path,
    ]);
    // With an empty PATH no runtime is found.
    let output = command.env("PATH", "/no/such/place").output().unwrap();
    Said::from_output(output).refused(1, &["runtime `gvisor` cannot be used here"]);
}

#[test]
fn flags_override_environment_and_environment_the_file() {
    let directory = scratch();
    let file = directory.path().join("sandbar.toml");
    fs::write(
        &file,
        "max_sessions = 1\nsnapshot_prefix = \"step\"\nstorage_backend = \"zfs\"\n",
    )
    .unwrap();
    let options = options()
        .argument("--config")
        .argument(&file)
        .variable("SANDBAR_MAX_SESSIONS", "2");
    let world = World {
        server: TestServer::start_in(&options, &directory.path().join("data")),
    };
    world.sandbox("one");
    world.sandbox("two");
    world.run(["new"]).refused(1, &["2"]);
    assert_eq!(world.run(["turn", "one"]).data(), "step-0001\n");
}
