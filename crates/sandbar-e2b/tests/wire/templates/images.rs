//! Templates from images, pulled from a registry of our own on loopback.

use std::{
    collections::HashMap, convert::Infallible, fmt::Write as _, fs, net::SocketAddr, sync::Arc,
};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sandbar_host::ImportSource;
use sandbar_testing::{make_small_root, tree::scratch};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::support::{Wanted, built, content, lines, run, step};
use crate::world::World;

/// Serves files by their paths, for as long as the test's runtime lives.
async fn registry(files: HashMap<String, Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, files) = (listener.local_addr().unwrap(), Arc::new(files));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let files = Arc::clone(&files);
            tokio::spawn(async move {
                let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
                    let found = files.get(request.uri().path()).cloned();
                    let status = if found.is_some() {
                        StatusCode::OK
                    } else {
                        StatusCode::NOT_FOUND
                    };
                    let body = Full::new(Bytes::from(found.unwrap_or_default()));
                    async move {
                        Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
                    }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

fn digest(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes)
        .iter()
        .fold("sha256:".to_owned(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
}

/// Returns a minimal image with a shell, as files of a registry.
fn image() -> HashMap<String, Vec<u8>> {
    let scratch = scratch();
    let root = scratch.path().join("root");
    make_small_root(&root);
    fs::create_dir_all(root.join("etc/skel")).unwrap();
    fs::write(root.join("etc/skel/.profile"), "# new home\n").unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    builder.follow_symlinks(false);
    builder.append_dir_all("", &root).unwrap();
    let layer = builder.into_inner().unwrap();
    let architecture = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": { "Env": ["FROM_IMAGE=yes", "PATH=/image/bin:/bin"], "User": "nobody" },
    });
    let config = config.to_string().into_bytes();
    let part = |bytes: &[u8]| json!({ "digest": digest(bytes), "size": bytes.len() });
    let manifest = json!({ "schemaVersion": 2, "config": part(&config), "layers": [part(&layer)] })
        .to_string();
    let mut files = HashMap::from([("/v2/tool/manifests/1".to_owned(), manifest.into_bytes())]);
    for bytes in [config, layer] {
        files.insert(format!("/v2/tool/blobs/{}", digest(&bytes)), bytes);
    }
    files
}

#[test]
fn template_from_an_image_gets_the_default_user() {
    World::run(async |world| {
        let address = registry(image()).await;
        let steps = json!([
            step("ENV", &["MORE", "${FROM_IMAGE}:${NOWHERE:-else}"]),
            step("RUN", &["echo $FROM_IMAGE $HOME $MORE > ~/made"]),
            step("USER", &["other"]),
            step("RUN", &["cat > ~/mine < /dev/null"])
        ]);
        let plan = json!({ "fromImage": format!("{address}/tool:1"), "steps": steps });
        let status = built(world, &Wanted::new("imaged"), plan.clone()).await;
        assert_eq!(status["status"], "ready", "{} {status}", lines(&status));
        let sandbox = world.sandbox_with(json!({ "templateID": "imaged" })).await;
        assert_eq!(
            content(world, &sandbox.id, "/home/user/made").await,
            "yes /home/user yes:else\n"
        );
        assert_eq!(run(world, &sandbox.id, "echo $FROM_IMAGE").await, "yes\n");
        for home in ["user", "other"] {
            assert_eq!(
                content(world, &sandbox.id, &format!("/home/{home}/.profile")).await,
                "# new home\n"
            );
        }
        let passwd = content(world, &sandbox.id, "/etc/passwd").await;
        assert!(
            passwd.contains("user:x:1000:1000::/home/user:/bin/sh\n")
                && passwd.contains("other:x:1001:1001:"),
            "{passwd}"
        );
        let again = built(world, &Wanted::new("imaged-again"), plan).await;
        assert_eq!(
            lines(&again).matches("CACHED [builder").count(),
            4,
            "{}",
            lines(&again)
        );
        let missing = json!({ "fromImage": format!("{address}/tool:2"), "fromImageRegistry": { "type": "registry", "username": "u", "password": "p" } });
        let status = built(world, &Wanted::new("missing"), missing).await;
        assert_eq!(status["reason"]["step"], "base", "{status}");
        let aws = json!({ "fromImage": "x", "fromImageRegistry": { "type": "aws", "awsAccessKeyId": "a", "awsSecretAccessKey": "b", "awsRegion": "c" } });
        let status = built(world, &Wanted::new("aws"), aws).await;
        assert_eq!(status["reason"]["step"], "base", "{status}");
        assert!(
            status["reason"]["message"]
                .as_str()
                .unwrap()
                .contains("not offered"),
            "{status}"
        );
    });
}

#[test]
fn path_of_a_template_keeps_the_usual_programs_for_steps() {
    World::run(async |world| {
        let address = registry(image()).await;
        for (name, set, has) in [
            ("extended", "/opt/tool:$PATH", "/opt/tool:/image/bin:/bin"),
            ("replaced", "/opt/tool", "/opt/tool"),
        ] {
            // `cat` is not in the replaced `PATH`.
            let steps = json!([
                step("ENV", &["PATH", set]),
                step("RUN", &["echo $PATH | cat > ~/path"])
            ]);
            let plan = json!({ "fromImage": format!("{address}/tool:1"), "steps": steps });
            let status = built(world, &Wanted::new(name), plan).await;
            assert_eq!(status["status"], "ready", "{} {status}", lines(&status));
            let sandbox = world.sandbox_with(json!({ "templateID": name })).await;
            let of_step = content(world, &sandbox.id, "/home/user/path").await;
            assert!(of_step.starts_with(&format!("{has}:")), "{of_step}");
            // Not a login shell: a profile of the image could override `PATH`.
            let request = json!({ "process": { "cmd": "/bin/sh", "args": ["-c", "echo $PATH"] }, "stdin": false });
            assert_eq!(
                sandbox.start(&request).await.wait().await.text(),
                format!("{has}\n")
            );
        }
    });
}

/// Returns the number of images kept as bases.
async fn images(world: &World) -> usize {
    let bases = world.host.list_bases().await.unwrap();
    bases
        .iter()
        .filter(|base| base.name.as_str().starts_with("e2b-image-"))
        .count()
}

/// Builds from the image of this registry.
async fn from_image(world: &World, name: &str, registry: SocketAddr, steps: Value) -> String {
    let (template, build) = super::support::requested(world, &Wanted::new(name)).await;
    let plan = json!({ "fromImage": format!("{registry}/tool:1"), "steps": steps });
    super::support::started(world, &template, &build, &plan).await;
    let status = super::support::finished(world, &template, &build).await;
    assert_eq!(status["status"], "ready", "{} {status}", lines(&status));
    template
}

async fn delete(world: &World, template: &str) {
    assert_eq!(
        world
            .control("DELETE", &format!("/templates/{template}"), None)
            .await
            .status,
        204
    );
}

#[test]
fn image_is_kept_while_a_template_or_sandbox_uses_it() {
    World::run(async |world| {
        let address = registry(image()).await;
        let nothing = json!([step("ENV", &["A", "1"])]);
        let (one, two) = (
            from_image(world, "one", address, nothing.clone()).await,
            from_image(world, "two", address, nothing.clone()).await,
        );
        let sandbox = world.sandbox_with(json!({ "templateID": "two" })).await;
        delete(world, &one).await;
        delete(world, &two).await;
        assert_eq!(images(world).await, 1, "a sandbox uses it");
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                .await
                .status,
            204
        );
        // A failed build triggers the removal, too.
        let failing = json!({ "fromTemplate": "base", "steps": [step("RUN", &["false"])] });
        assert_eq!(
            built(world, &Wanted::new("failing"), failing).await["status"],
            "error"
        );
        crate::control::eventually("the image is removed", async || images(world).await == 0).await;
        // It is unpacked again for the next build.
        from_image(world, "three", address, nothing).await;
        assert_eq!(images(world).await, 1);
        let replaced = json!({ "fromTemplate": "base", "steps": [] });
        assert_eq!(
            built(world, &Wanted::new("three"), replaced).await["status"],
            "ready"
        );
        crate::control::eventually("the image is removed", async || images(world).await == 0).await;
    });
}

#[test]
fn unused_image_is_removed_at_the_next_start() {
    World::run_and_start_again(
        async |world| {
            let address = registry(image()).await;
            from_image(world, "layered", address, json!([step("RUN", &["true"])])).await;
            // Leftover of a host that stopped between unpacking and building.
            let scratch = scratch();
            make_small_root(scratch.path());
            let source = ImportSource::Directory(scratch.path().to_owned());
            let name = "e2b-image-left".parse().unwrap();
            world
                .host
                .import_base(&name, &source, |_| {})
                .await
                .unwrap();
            assert_eq!(images(world).await, 2);
        },
        async |world| {
            assert_eq!(world.control("GET", "/templates", None).await.status, 200);
            assert_eq!(images(world).await, 1);
            world.sandbox_with(json!({ "templateID": "layered" })).await;
        },
    );
}
