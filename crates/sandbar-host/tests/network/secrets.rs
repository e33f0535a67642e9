//! Secrets that a session uses and never has.

use std::os::unix::fs::PermissionsExt;

use sandbar_core::{
    ExecSpec, HeaderRule, LogQuery, NetworkPolicy, Quiesce, SecretName, SecretValue, SessionId,
};
use sandbar_testing::internet::{Heard, Page};

use crate::{fixture::snap, search, world::World};

/// Returns a new random secret.
fn fresh() -> String {
    let letters = || fastrand::alphanumeric();
    format!(
        "sk-{}",
        std::iter::repeat_with(letters).take(40).collect::<String>()
    )
}

fn name() -> SecretName {
    SecretName::new("key").unwrap()
}

async fn put(world: &World<'_>, secret: &str) {
    world
        .fixture
        .host
        .put_secret(&name(), SecretValue::new(secret).unwrap())
        .await
        .unwrap();
}

/// Hosts that can be reached, and one that gets the secret.
fn policy(allowed: &str) -> NetworkPolicy {
    let mut policy: NetworkPolicy = allowed.parse().unwrap();
    policy.secrets = vec![HeaderRule {
        host: "api.example".parse().unwrap(),
        port: None,
        header: "Authorization".into(),
        secret: name(),
        format: Some("Bearer {}".into()),
    }];
    policy
}

/// A session whose programs trust what it is shown, with no help from the test.
async fn session(world: &World<'_>, allowed: &str) -> SessionId {
    world.session_with("s", policy(allowed)).await
}

fn requests(world: &World<'_>, host: &str) -> Vec<Heard> {
    world
        .internet
        .received_by(host)
        .into_iter()
        .filter(Heard::is_request)
        .collect()
}

fn last_authorization(world: &World<'_>, host: &str) -> Option<String> {
    requests(world, host)
        .last()
        .unwrap()
        .header("authorization")
        .map(str::to_owned)
}

pub(crate) async fn gateway_injects_a_secret_the_session_lacks(world: &mut World<'_>) {
    let secret = fresh();
    put(world, &secret).await;
    let id = session(world, "allow=api.example").await;
    let url = "https://api.example/v1";
    let mut count = 0;
    for program in [
        format!("curl -sS --max-time 20 {url}"),
        format!("curl -sS --http1.1 --max-time 20 --noproxy '*' {url}"),
        format!("curl -sS --http2 --max-time 20 --noproxy '*' {url}"),
        format!(
            "/usr/bin/python3 -c 'import urllib.request as r; print(r.urlopen(\"{url}\").read())'"
        ),
        format!("node -e 'fetch(\"{url}\").then(r => r.text()).then(console.log)'"),
    ] {
        let said = world.shell(&id, &program).await;
        assert!(
            said.stdout.contains("hello from api.example"),
            "{program}: {said:?}"
        );
        count += 1;
        let heard = requests(world, "api.example");
        assert_eq!(heard.len(), count, "{program}");
        assert_eq!(
            heard.last().unwrap().header("authorization"),
            Some(&*format!("Bearer {secret}")),
            "{program}"
        );
    }
    let entry = world.was_decided(&id, "allow", "api.example", "").await;
    let with_secret = async || {
        let named = |entry: &sandbar_core::AuditEntry| {
            entry.detail["secrets"] == serde_json::json!(["key"])
        };
        world.decisions(&id).await.into_iter().find(named)
    };
    world
        .fixture
        .eventually("the log names the secret", with_secret)
        .await;
    assert!(!format!("{entry:?}").contains(&secret));
}

/// Asks with the secret, then waits with everything it has received and a mark of its own in
/// memory.
const HOLDER: &str = r#"
import sys, time, urllib.request
mark = "-".join(["mark", "of", sys.argv[1]])
answer = urllib.request.urlopen("https://api.example/v1").read()
print("ready", len(answer), flush=True)
time.sleep(600)
"#;

pub(crate) async fn secret_is_nowhere_in_the_session(world: &mut World<'_>) {
    let (secret, mark) = (fresh(), fresh());
    put(world, &secret).await;
    let id = session(world, "allow=api.example").await;
    let process = world.launch(&id, HOLDER, &[&mark]).await;
    assert_eq!(
        last_authorization(world, "api.example"),
        Some(format!("Bearer {secret}"))
    );
    // Everything that the session can print about itself and its requests, also kept in a file.
    let talk = "{ curl -sSv https://api.example/v1; curl -sS --trace-ascii - https://api.example/v1; env; \
        cat /proc/*/environ /proc/*/cmdline /dev/sandbar/*; } >talk 2>&1; cat talk";
    let said = world.shell(&id, talk).await;
    assert!(
        said.stdout.contains("hello from api.example") && said.stdout.contains("BEGIN CERTIFICATE"),
        "{said:?}"
    );
    assert!(!said.stdout.contains(&secret));
    world
        .fixture
        .host
        .create_snapshot(&id, Some(snap("after")), Quiesce::WhereNeeded)
        .await
        .unwrap();

    // The search finds what is there…
    let found = search::in_processes(format!("mark-of-{mark}").as_bytes());
    assert!(
        found.iter().any(|place| place.starts_with("memory of ")),
        "{found:?}"
    );
    let scratch = world.fixture.storage.scratch();
    rustix::fs::syncfs(std::fs::File::open(scratch).unwrap()).unwrap();
    let state = world.fixture.config.data_dir.join("state.db");
    assert!(!search::in_files(scratch, b"hello from api.example", &state).is_empty());
    let mode = std::fs::metadata(&state).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    // … and not the secret, which is in the host's own state alone.
    assert_eq!(
        search::in_processes(secret.as_bytes()),
        Vec::<String>::new()
    );
    assert_eq!(
        search::in_files(scratch, secret.as_bytes(), &state),
        Vec::<std::path::PathBuf>::new()
    );

    let mut logs = world
        .fixture
        .host
        .process_logs(&id, &process, LogQuery::default())
        .await
        .unwrap();
    while let Some(chunk) = logs.next().await {
        assert!(!String::from_utf8_lossy(&chunk.bytes).contains(&secret));
    }
    assert!(!format!("{:?}", world.decisions(&id).await).contains(&secret));
    assert!(!world.fixture.host.metrics_text().await.contains(&secret));
    assert!(!format!("{:?}", world.fixture.host.list_secrets().await.unwrap()).contains(&secret));
    assert!(!format!("{:?}", world.fixture.host.get_network(&id).await.unwrap()).contains(&secret));
}

pub(crate) async fn header_of_the_session_is_replaced_by_the_secret(world: &mut World<'_>) {
    let secret = fresh();
    put(world, &secret).await;
    let id = session(world, "allow=api.example").await;
    let headers = "-H 'Authorization: Bearer mine' -H 'AUTHORIZATION: Basic b3duOm93bg=='";
    for version in ["--http1.1", "--http2"] {
        let said = world
            .shell(
                &id,
                &format!("curl -sS {version} {headers} https://api.example/"),
            )
            .await;
        assert_eq!(said.code, Some(0), "{said:?}");
        let heard = requests(world, "api.example").pop().unwrap();
        let given: Vec<&str> = heard
            .words
            .lines()
            .filter(|line| line.to_lowercase().starts_with("authorization:"))
            .collect();
        assert_eq!(
            given,
            [format!("authorization: Bearer {secret}")],
            "{version}"
        );
    }
}

pub(crate) async fn other_hosts_do_not_get_the_secret(world: &mut World<'_>) {
    let secret = fresh();
    put(world, &secret).await;
    let id = session(world, "allow=api.example,other.example").await;
    let authority = "--cacert authority.pem";
    for url in ["https://other.example/", "http://other.example/"] {
        let said = world
            .shell(&id, &format!("curl -sS {authority} {url}"))
            .await;
        assert!(said.stdout.contains("hello from other.example"), "{said:?}");
    }
    // Another name inside a connection to the right one.
    let said = world
        .shell(
            &id,
            "curl -sS -H 'Host: other.example' https://api.example/",
        )
        .await;
    assert!(
        !said.stdout.contains("hello from other.example"),
        "{said:?}"
    );
    let everything = format!("{:?}", world.internet.received());
    assert!(!everything.contains(&secret));
    // A session without the rule.
    let plain = world.session("plain", "allow=api.example").await;
    let said = world
        .shell(
            &plain,
            &format!("curl -sS {authority} https://api.example/"),
        )
        .await;
    assert!(said.stdout.contains("hello from api.example"), "{said:?}");
    assert_eq!(last_authorization(world, "api.example"), None);
}

pub(crate) async fn redirect_to_another_host_drops_the_secret(world: &mut World<'_>) {
    let secret = fresh();
    put(world, &secret).await;
    let id = session(world, "allow=api.example,other.example").await;
    for (path, to) in [
        ("/a", "https://other.example/"),
        ("/b", "http://other.example/"),
        ("/c", "http://api.example/x"),
    ] {
        world
            .internet
            .pages()
            .publish("api.example", path, Page::redirect(to));
        let curl = format!("curl -sSkL --location-trusted https://api.example{path}");
        let said = world.shell(&id, &curl).await;
        assert!(said.stdout.contains("hello from"), "{said:?}");
    }
    assert_eq!(requests(world, "other.example").len(), 2);
    assert!(!format!("{:?}", requests(world, "other.example")).contains(&secret));
    let plain = requests(world, "api.example").pop().unwrap();
    assert!(
        plain.at.port() == 80 && plain.header("authorization").is_none(),
        "{plain:?}"
    );
}

pub(crate) async fn plain_http_does_not_carry_the_secret(world: &mut World<'_>) {
    let secret = fresh();
    put(world, &secret).await;
    let id = session(world, "allow=api.example").await;
    for proxy in ["", "--noproxy '*'"] {
        world
            .shell(&id, &format!("curl -sS {proxy} http://api.example/"))
            .await;
    }
    world.shell(&id, "curl -sS http://api.example:443/").await;
    assert!(!format!("{:?}", world.internet.received()).contains(&secret));
}

pub(crate) async fn unverified_server_does_not_get_the_secret(world: &mut World<'_>) {
    let secret = fresh();
    put(world, &secret).await;
    // Its certificate has another name in it.
    let address = sandbar_testing::internet::API.parse().unwrap();
    world.internet.zone().set(
        "impostor.example",
        sandbar_testing::internet::Answer::Addresses(vec![address]),
    );
    let mut policy = policy("allow=impostor.example,api.example");
    policy.secrets[0].host = "impostor.example".parse().unwrap();
    let id = world.session_with("s", policy).await;
    let said = world
        .shell(&id, "curl -sSk https://impostor.example/")
        .await;
    assert!(!said.stdout.contains("hello from"), "{said:?}");
    assert!(world.internet.was_reached(sandbar_testing::internet::API));
    assert_eq!(requests(world, "impostor.example"), []);
    assert!(!format!("{:?}", world.internet.received()).contains(&secret));
}

pub(crate) async fn changed_secret_applies_to_the_next_request(world: &mut World<'_>) {
    let (first, second) = (fresh(), fresh());
    put(world, &first).await;
    let id = session(world, "allow=api.example").await;
    let curl = ExecSpec::new(["curl", "-sS", "https://api.example/"]);
    world.exec(&id, curl.clone()).await;
    assert_eq!(
        last_authorization(world, "api.example"),
        Some(format!("Bearer {first}"))
    );
    put(world, &second).await;
    world.exec(&id, curl.clone()).await;
    assert_eq!(
        last_authorization(world, "api.example"),
        Some(format!("Bearer {second}"))
    );
    // Without it no request leaves.
    world.fixture.host.delete_secret(&name()).await.unwrap();
    let before = requests(world, "api.example").len();
    let said = world.exec(&id, curl).await;
    assert!(!said.stdout.contains("hello from"), "{said:?}");
    assert_eq!(requests(world, "api.example").len(), before);
}

pub(crate) async fn secret_echoed_in_headers_is_removed(world: &mut World<'_>) {
    let secret = fresh();
    put(world, &secret).await;
    let id = session(world, "allow=api.example").await;
    let mut page = Page::redirect(&format!("https://api.example/?key={secret}"));
    page.headers
        .push(("x-told".into(), format!("you said {secret}")));
    page.headers.push(("x-harmless".into(), "nothing".into()));
    world
        .internet
        .pages()
        .publish("api.example", "/telling", page);
    for version in ["--http1.1", "--http2"] {
        let said = world
            .shell(
                &id,
                &format!("curl -sS {version} -D - https://api.example/telling"),
            )
            .await;
        assert!(
            said.stdout.contains("x-harmless: nothing") && !said.stdout.contains(&secret),
            "{said:?}"
        );
        let before = requests(world, "api.example").len();
        let said = world
            .shell(
                &id,
                &format!("curl -sS {version} -X TRACE https://api.example/"),
            )
            .await;
        assert!(!said.stdout.contains(&secret), "{said:?}");
        assert_eq!(requests(world, "api.example").len(), before);
    }
}

pub(crate) async fn secret_rule_can_be_added_later(world: &mut World<'_>) {
    let secret = fresh();
    put(world, &secret).await;
    let id = world.session("s", "allow=api.example").await;
    let curl = "curl -sS --cacert authority.pem https://api.example/";
    assert_eq!(world.shell(&id, curl).await.code, Some(0));
    assert_eq!(last_authorization(world, "api.example"), None);
    // The change needs a session CA, which the running box lacks.
    let running = world.guest(&id, &["lookup", "api.example"]).await;
    assert!(running.starts_with("reached: "), "{running}");
    let error = world
        .fixture
        .host
        .set_network(&id, policy("allow=api.example"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.field()),
        (sandbar_core::ErrorCode::InvalidState, Some("network"))
    );
    assert_eq!(world.shell(&id, curl).await.code, Some(0));
    assert_eq!(last_authorization(world, "api.example"), None);
    world.dismiss(&id);
    let changed = async || {
        world
            .fixture
            .host
            .set_network(&id, policy("allow=api.example"))
            .await
            .ok()
    };
    world
        .fixture
        .eventually("nothing runs any more", changed)
        .await;
    let said = world.shell(&id, "curl -sS https://api.example/").await;
    assert!(said.stdout.contains("hello from api.example"), "{said:?}");
    assert_eq!(
        last_authorization(world, "api.example"),
        Some(format!("Bearer {secret}"))
    );
}
