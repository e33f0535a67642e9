//! Programs people use: each reaches what is allowed and is refused elsewhere, with the proxy
//! variables and without.

use std::{path::Path, process::Command};

use sandbar_core::{NetworkPolicy, SessionId};
use sandbar_testing::{
    internet::{Answer, Heard, Page, WEB, WEB_V6},
    tree,
};

use crate::world::World;

const POLICY: &str =
    "allow=allowed.example,*.allowed.example,git.example:443,pypi.example,six.example,both.example";

/// Takes away what a session tells programs about its proxy.
const WITHOUT_PROXY: &str =
    "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY no_proxy NO_PROXY; ";

/// Runs a script with the proxy variables and without, and hands over what it said.
async fn both_ways(
    world: &World<'_>,
    id: &SessionId,
    script: &str,
    check: impl Fn(&crate::world::Said),
) {
    for prefix in ["", WITHOUT_PROXY] {
        let said = world.shell(id, &format!("{prefix}{script}")).await;
        assert!(
            !said.stderr.contains("timed out") && !said.stderr.contains("command not found"),
            "{script}: {said:?}"
        );
        check(&said);
    }
}

async fn works(world: &World<'_>, id: &SessionId, script: &str, answer: &str) {
    both_ways(world, id, script, |said| {
        assert!(
            said.code == Some(0) && said.stdout.contains(answer),
            "{script}: {said:?}"
        );
    })
    .await;
}

async fn fails(world: &World<'_>, id: &SessionId, script: &str) {
    both_ways(world, id, script, |said| {
        assert!(
            said.code != Some(0) && !said.stdout.contains("hello from"),
            "{script}: {said:?}"
        );
    })
    .await;
}

fn run(directory: &Path, program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(directory)
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

pub(crate) async fn environment_names_the_proxy(world: &mut World<'_>) {
    let id = world.session("s", POLICY).await;
    let said = world.shell(&id, "env").await;
    for variable in [
        "http_proxy=http://192.0.0.1:3128",
        "HTTPS_PROXY=http://192.0.0.1:3128",
        "no_proxy=localhost",
    ] {
        assert!(said.stdout.contains(variable), "{said:?}");
    }
    let closed = world.session("closed", "none").await;
    assert!(
        !world
            .shell(&closed, "env")
            .await
            .stdout
            .to_lowercase()
            .contains("proxy")
    );
}

pub(crate) async fn curl_reaches_only_allowed_hosts(world: &mut World<'_>) {
    let id = world.session("s", POLICY).await;
    let curl = "curl -sSf --max-time 20 --cacert authority.pem";
    for url in [
        "http://allowed.example/",
        "https://allowed.example/",
        "https://www.allowed.example/",
    ] {
        works(world, &id, &format!("{curl} {url}"), "hello from").await;
    }
    works(
        world,
        &id,
        &format!("{curl} --http1.1 https://allowed.example/"),
        "hello from allowed.example",
    )
    .await;
    // Only by IPv6.
    works(
        world,
        &id,
        &format!("{curl} https://six.example/"),
        "hello from six.example",
    )
    .await;
    assert!(world.internet.was_reached(WEB_V6));
    for url in [
        "http://other.example/",
        "https://other.example/",
        "http://attacker.example/",
        "https://attacker.example/",
        "http://198.51.100.66/",
        "https://203.0.113.10/",
        "http://git.example/",
    ] {
        fails(world, &id, &format!("{curl} {url}")).await;
    }
    let why = world
        .shell(
            &id,
            "curl -sS --max-time 20 http://attacker.example/; curl -sS https://other.example",
        )
        .await;
    assert!(
        why.stdout.contains("attacker.example") && why.stdout.contains("not in the allow list"),
        "{why:?}"
    );
    assert!(why.stderr.contains("403"), "{why:?}");
    assert_eq!(world.internet.received_by("other.example"), []);
    world.no_server_was_reached();
}

pub(crate) async fn large_bodies_are_complete_both_ways(world: &mut World<'_>) {
    let id = world.session("s", POLICY).await;
    let content: Vec<u8> = (0..4_u32 << 20)
        .map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    world.internet.pages().publish(
        "allowed.example",
        "/large",
        Page::new("application/octet-stream", content.clone()),
    );
    let curl = "curl -sSf --max-time 60 --cacert authority.pem";
    let mut sums = Vec::new();
    for url in [
        "http://allowed.example/large",
        "https://allowed.example/large",
    ] {
        both_ways(
            world,
            &id,
            &format!("{curl} -o large {url} && sha256sum <large && rm large"),
            |said| {
                assert_eq!(said.code, Some(0), "{said:?}");
            },
        )
        .await;
        sums.push(
            world
                .shell(&id, &format!("{curl} -o large {url} && sha256sum <large"))
                .await
                .stdout,
        );
    }
    assert!(!sums[0].is_empty() && sums[0] == sums[1]);
    let exported = world.fixture.exported(&id, "large").await;
    assert!(
        exported
            .windows(content.len())
            .any(|window| window == content)
    );
    works(
        world,
        &id,
        &format!("{curl} --data-binary @large https://allowed.example/up"),
        "hello from",
    )
    .await;
    let traffic = world.fixture.host.get_network(&id).await.unwrap().traffic;
    assert!(
        traffic.bytes_received > 6 * content.len() as u64
            && traffic.bytes_sent > 2 * content.len() as u64
    );
}

/// Shows a repository at two hosts.
fn publish_repository(world: &World<'_>) {
    let scratch = tree::scratch();
    let work = scratch.path();
    run(work, "git", &["init", "-q", "-b", "main", "work"]);
    std::fs::write(work.join("work/README"), "cloned\n").unwrap();
    let person = ["-c", "user.name=t", "-c", "user.email=t@example"];
    run(&work.join("work"), "git", &["add", "."]);
    run(
        &work.join("work"),
        "git",
        &[&person[..], &["commit", "-qm", "first"]].concat(),
    );
    run(
        work,
        "git",
        &["clone", "-q", "--bare", "work", "project.git"],
    );
    run(&work.join("project.git"), "git", &["update-server-info"]);
    for host in ["git.example", "attacker.example"] {
        world
            .internet
            .pages()
            .publish_tree(host, "/project.git", &work.join("project.git"));
    }
}

pub(crate) async fn git_clones_only_from_allowed_hosts(world: &mut World<'_>) {
    publish_repository(world);
    let id = world.session("s", POLICY).await;
    let clone = "export GIT_SSL_CAINFO=$PWD/authority.pem; rm -rf project; git clone -q";
    works(
        world,
        &id,
        &format!("{clone} https://git.example/project.git && cat project/README"),
        "cloned",
    )
    .await;
    fails(
        world,
        &id,
        &format!("{clone} https://attacker.example/project.git"),
    )
    .await;
    // Its port is closed.
    fails(
        world,
        &id,
        &format!("{clone} http://git.example/project.git"),
    )
    .await;
    fails(
        world,
        &id,
        &format!("{clone} git://attacker.example/project.git"),
    )
    .await;
    world.no_server_was_reached();
}

pub(crate) async fn pip_installs_only_from_allowed_hosts(world: &mut World<'_>) {
    const MAKE_WHEEL: &str = "import zipfile; z = zipfile.ZipFile('tiny-1.0-py3-none-any.whl', 'w'); \
        z.writestr('tiny.py', 'word = \"hello from tiny\"\\n'); d = 'tiny-1.0.dist-info/'; \
        z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n'); \
        z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'); \
        z.writestr(d + 'RECORD', 'tiny.py,,\\n'); z.close()";
    let scratch = tree::scratch();
    run(scratch.path(), "/usr/bin/python3", &["-c", MAKE_WHEEL]);
    let wheel = std::fs::read(scratch.path().join("tiny-1.0-py3-none-any.whl")).unwrap();
    let index = r#"<a href="/packages/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>"#;
    for host in ["pypi.example", "attacker.example"] {
        let pages = world.internet.pages();
        pages.publish(host, "/simple/tiny/", Page::new("text/html", index));
        let path = "/packages/tiny-1.0-py3-none-any.whl";
        pages.publish(
            host,
            path,
            Page::new("application/octet-stream", wheel.clone()),
        );
    }
    let id = world.session("s", POLICY).await;
    let pip = |host: &str| {
        format!(
            "export HOME=/tmp PIP_CERT=$PWD/authority.pem; rm -rf got; /usr/bin/python3 -m pip install -q --retries 0 \
             --disable-pip-version-check --no-cache-dir --no-deps --no-compile --target got \
             --index-url https://{host}/simple tiny"
        )
    };
    let used = "PYTHONPATH=got /usr/bin/python3 -c 'import tiny; print(tiny.word)'";
    works(
        world,
        &id,
        &format!("{} && {used}", pip("pypi.example")),
        "hello from tiny",
    )
    .await;
    fails(world, &id, &pip("attacker.example")).await;
    world.no_server_was_reached();
}

pub(crate) async fn python_reaches_only_allowed_hosts(world: &mut World<'_>) {
    let id = world.session("s", POLICY).await;
    let python = |url: &str| {
        format!(
            "SSL_CERT_FILE=authority.pem /usr/bin/python3 -c 'import urllib.request as r; \
             print(r.urlopen(\"{url}\", timeout=20).read())'"
        )
    };
    for url in ["https://allowed.example/", "http://www.allowed.example/"] {
        works(world, &id, &python(url), "hello from").await;
    }
    for url in [
        "https://other.example/",
        "http://attacker.example/",
        "http://169.254.169.254/",
        "http://10.66.0.10/",
    ] {
        fails(world, &id, &python(url)).await;
    }
    world.no_server_was_reached();
}

pub(crate) async fn node_reaches_only_allowed_hosts(world: &mut World<'_>) {
    let id = world.session("s", POLICY).await;
    let node = |url: &str| {
        format!(
            "NODE_EXTRA_CA_CERTS=authority.pem node -e 'fetch(\"{url}\").then(r => r.ok ? r.text() : Promise.reject(r.status)) \
             .then(console.log, e => {{ console.error(e); process.exit(1) }})'"
        )
    };
    works(
        world,
        &id,
        &node("https://allowed.example/"),
        "hello from allowed.example",
    )
    .await;
    for url in [
        "https://attacker.example/",
        "http://attacker.example/",
        "http://169.254.169.254/",
    ] {
        fails(world, &id, &node(url)).await;
    }
    world.no_server_was_reached();
}

pub(crate) async fn programs_trust_the_session_ca(world: &mut World<'_>) {
    publish_repository(world);
    let mut policy: NetworkPolicy = POLICY.parse().unwrap();
    policy.inspect_tls = true;
    let id = world.session_with("s", policy).await;
    let url = "https://allowed.example/";
    for program in [
        format!("curl -sSf --max-time 20 {url}"),
        format!("/usr/bin/python3 -c 'import urllib.request as r; print(r.urlopen(\"{url}\").read())'"),
        format!("node -e 'fetch(\"{url}\").then(r => r.text()).then(console.log)'"),
        "printf 'GET / HTTP/1.0\\r\\nHost: allowed.example\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error \
         -servername allowed.example -connect 203.0.113.10:443"
            .to_owned(),
    ] {
        works(world, &id, &program, "hello from allowed.example").await;
    }
    let clone =
        "rm -rf project; git clone -q https://git.example/project.git && cat project/README";
    works(world, &id, clone, "cloned").await;
    // A server with an untrusted certificate stays untrusted.
    let address = WEB.parse().unwrap();
    let wrong = "unvouched.allowed.allowed.example";
    world
        .internet
        .zone()
        .set(wrong, Answer::Addresses(vec![address]));
    fails(
        world,
        &id,
        &format!("curl -sSfk --max-time 20 https://{wrong}/"),
    )
    .await;
    assert!(
        !world
            .internet
            .received_by(wrong)
            .iter()
            .any(Heard::is_request)
    );
    world.no_server_was_reached();
}

pub(crate) async fn http_upgrade_to_an_allowed_host_works(world: &mut World<'_>) {
    let id = world.session("s", POLICY).await;
    world
        .reaches(
            &id,
            &["upgraded", "allowed.example", "80", "allowed.example"],
            "no longer HTTP",
        )
        .await;
    world
        .is_refused(
            &id,
            &["upgraded", "allowed.example", "80", "attacker.example"],
        )
        .await;
    world.no_server_was_reached();
}
