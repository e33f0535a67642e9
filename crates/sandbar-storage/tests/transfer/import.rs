//! Bases from every kind of source, and from damaged ones.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use sandbar_core::{BaseName, Error, ErrorCode, SessionId, StorageKind};
use sandbar_storage::{
    BaseRecord, BaseSource, ImportProgress, ImportSource, LayerDirectory, Storage, StorageConfig,
    VolumeSpec, import_base, open,
};
use sha2::{Digest, Sha256};

use sandbar_testing::{
    private_mounts,
    tree::{Scratch, assert_same, one_of_everything, scratch, tree},
};

fn run(command: &mut std::process::Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

struct Store {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
}

fn store(scratch: &Scratch) -> Store {
    private_mounts();
    let directory = scratch.path().join("pool");
    let config = StorageConfig {
        choice: Some(StorageKind::LocalDisk),
        directory: directory.clone(),
        zfs: None,
        pool_image_limit: None,
    };
    Store {
        storage: open(&config).unwrap().storage,
        directory,
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let closed = self.storage.close();
        // A second panic would hide the first.
        if !std::thread::panicking() {
            closed.unwrap();
        }
    }
}

impl Store {
    fn import(&self, source: &str) -> Result<BaseRecord, Error> {
        let name = BaseName::new("base").unwrap();
        import_base(
            self.storage.as_ref(),
            &name,
            &ImportSource::parse(source)?,
            &|_| {},
        )
    }

    fn rootfs(&self) -> PathBuf {
        self.directory.join("bases/base/rootfs")
    }

    fn nothing_left(&self) {
        assert!(self.storage.bases().unwrap().is_empty());
        assert_eq!(
            fs::read_dir(self.directory.join("staging"))
                .unwrap()
                .count(),
            0
        );
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A small root file system.
fn small_root(root: &Path) {
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::write(root.join("etc/motd"), "welcome").unwrap();
    symlink("usr/bin", root.join("bin")).unwrap();
    fs::create_dir(root.join("tmp")).unwrap();
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o700)).unwrap();
}

fn tar_of(root: &Path, archive: &Path, options: &[&str]) {
    run(Command::new("tar")
        .args(options)
        .arg("-cf")
        .arg(archive)
        .arg("-C")
        .arg(root)
        .arg("."));
}

#[test]
fn import_of_a_directory_copies_everything() {
    let scratch = scratch();
    let store = store(&scratch);
    let from = scratch.path().join("from");
    one_of_everything(&from);
    let record = store.import(&text(&from)).unwrap();
    assert_eq!(record.source, BaseSource::Directory);
    assert_eq!(record, store.storage.base(&record.name).unwrap());
    let (expected, mut got) = (tree(&from), tree(&store.rootfs()));
    for name in [
        "tmp",
        "workspace",
        "proc",
        "sys",
        "dev",
        "etc",
        "run",
        "root",
    ] {
        assert!(got.remove(Path::new(name)).is_some(), "{name}");
    }
    assert_same(&expected, &got);
}

#[test]
fn imported_base_gets_missing_directories_and_keeps_its_own() {
    let scratch = scratch();
    let store = store(&scratch);
    let from = scratch.path().join("from");
    small_root(&from);
    fs::set_permissions(&from, fs::Permissions::from_mode(0o700)).unwrap();
    store.import(&text(&from)).unwrap();
    let mode = |path: &str| {
        fs::symlink_metadata(store.rootfs().join(path))
            .unwrap()
            .mode()
            & 0o7777
    };
    assert_eq!(mode("tmp"), 0o700, "what the source has is not overwritten");
    assert_eq!(
        (mode("workspace"), mode("root"), mode("proc")),
        (0o755, 0o700, 0o555)
    );
    assert_eq!(
        fs::metadata(store.rootfs().join("workspace"))
            .unwrap()
            .uid(),
        0
    );
    assert_eq!(mode("") & 0o555, 0o555);
}

#[test]
fn archive_type_is_detected_by_content_not_by_name() {
    let scratch = scratch();
    let from = scratch.path().join("from");
    small_root(&from);
    for (name, options) in [
        ("plain", &[][..]),
        ("gzip.zip", &["--gzip"]),
        ("zstd.txt", &["--zstd"]),
    ] {
        let own = sandbar_testing::tree::scratch();
        let store = store(&own);
        let archive = scratch.path().join(name);
        tar_of(&from, &archive, options);
        assert_eq!(
            ImportSource::parse(&text(&archive)).unwrap(),
            ImportSource::Tar(archive.clone())
        );
        let record = store.import(&text(&archive)).unwrap();
        assert_eq!(record.source, BaseSource::Tar);
        assert_eq!(
            fs::read_to_string(store.rootfs().join("etc/motd")).unwrap(),
            "welcome"
        );
        assert_eq!(
            fs::read_link(store.rootfs().join("bin")).unwrap(),
            Path::new("usr/bin")
        );
    }
}

#[test]
fn invalid_import_source_is_refused_with_a_hint() {
    let scratch = scratch();
    let junk = scratch.path().join("junk.tar");
    fs::write(&junk, "this is no archive".repeat(100)).unwrap();
    let empty = scratch.path().join("empty.tar");
    fs::write(&empty, "").unwrap();
    for (source, word) in [
        (text(&junk), "checksum"),
        (text(&empty), "empty"),
        ("/nonexistent".into(), "does not exist"),
        (String::new(), "empty"),
        ("/dev/null".into(), "neither"),
    ] {
        let error = ImportSource::parse(&source).unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidArgument, Some("source")),
            "{source}"
        );
        assert!(
            error.chain().contains(word) && error.hint().is_some(),
            "{source}: {}",
            error.chain()
        );
    }
    let error = ImportSource::parse("docker://debian:12").unwrap_err();
    assert!(
        error
            .hint()
            .unwrap()
            .contains("skopeo copy docker://debian:12"),
        "{:?}",
        error.hint()
    );
}

#[test]
fn a_failed_import_leaves_nothing_behind() {
    let scratch = scratch();
    let store = store(&scratch);
    let from = scratch.path().join("from");
    small_root(&from);
    let archive = scratch.path().join("cut.tar");
    tar_of(&from, &archive, &[]);
    let bytes = fs::read(&archive).unwrap();
    fs::write(&archive, &bytes[..3000]).unwrap();
    let error = store.import(&text(&archive)).unwrap_err();
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::InvalidArgument, Some("source")),
        "{}",
        error.chain()
    );
    store.nothing_left();
    tar_of(&from, &archive, &[]);
    store.import(&text(&archive)).unwrap();
    assert_eq!(
        store.import(&text(&archive)).unwrap_err().code(),
        ErrorCode::BaseExists
    );
}

#[test]
fn progress_reaches_all_entries() {
    let scratch = scratch();
    let store = store(&scratch);
    let from = scratch.path().join("from");
    small_root(&from);
    let last = Cell::new(ImportProgress::default());
    let name = BaseName::new("base").unwrap();
    import_base(
        store.storage.as_ref(),
        &name,
        &ImportSource::Directory(from),
        &|progress| last.set(progress),
    )
    .unwrap();
    assert_eq!(
        last.get(),
        ImportProgress {
            entries: 6,
            bytes: 7,
            total: None
        }
    );
}

/// Builds image layouts by hand.
struct Layout {
    directory: PathBuf,
    layers: Vec<serde_json::Value>,
}

impl Layout {
    fn new(directory: PathBuf) -> Self {
        fs::create_dir_all(directory.join("blobs/sha256")).unwrap();
        fs::write(
            directory.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )
        .unwrap();
        Self {
            directory,
            layers: Vec::new(),
        }
    }

    fn blob(&self, kind: &str, bytes: &[u8]) -> serde_json::Value {
        let digest = sha256(bytes);
        fs::write(self.directory.join("blobs/sha256").join(&digest), bytes).unwrap();
        serde_json::json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len() })
    }

    fn layer(&mut self, bytes: &[u8]) {
        let layer = self.blob("application/vnd.oci.image.layer.v1.tar", bytes);
        self.layers.push(layer);
    }

    fn manifest(&self, architecture: &str, env: &[&str]) -> serde_json::Value {
        let config = serde_json::json!({ "architecture": architecture, "os": "linux", "config": { "Env": env } });
        let config = self.blob(
            "application/vnd.oci.image.config.v1+json",
            config.to_string().as_bytes(),
        );
        let manifest =
            serde_json::json!({ "schemaVersion": 2, "config": config, "layers": self.layers });
        self.blob(
            "application/vnd.oci.image.manifest.v1+json",
            manifest.to_string().as_bytes(),
        )
    }

    fn index(&self, manifests: &[serde_json::Value]) {
        let index = serde_json::json!({ "schemaVersion": 2, "manifests": manifests });
        fs::write(self.directory.join("index.json"), index.to_string()).unwrap();
    }
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
}

fn here() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    }
}

/// A tar with these files; a directory ends in a slash.
fn layer(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        if path.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(0o755);
        }
        builder
            .append_data(&mut header, path, content.as_bytes())
            .unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn three_layers(directory: PathBuf) -> Layout {
    let mut layout = Layout::new(directory);
    layout.layer(&gzip(&layer(&[
        ("etc/", ""),
        ("etc/a", "one"),
        ("etc/gone", "x"),
        ("data/old", "x"),
    ])));
    layout.layer(
        &zstd::encode_all(&layer(&[("etc/a", "two"), ("etc/.wh.gone", "")])[..], 3).unwrap(),
    );
    layout.layer(&layer(&[("data/.wh..wh..opq", ""), ("data/new", "three")]));
    layout
}

fn check_three_layers(rootfs: &Path) {
    assert_eq!(fs::read_to_string(rootfs.join("etc/a")).unwrap(), "two");
    assert_eq!(
        fs::read_to_string(rootfs.join("data/new")).unwrap(),
        "three"
    );
    assert!(!rootfs.join("etc/gone").exists() && !rootfs.join("data/old").exists());
    assert!(
        tree(rootfs)
            .keys()
            .all(|path| !path.to_string_lossy().contains(".wh."))
    );
}

#[test]
fn an_oci_layout_is_imported_layer_by_layer_for_this_machine() {
    let scratch = scratch();
    let store = store(&scratch);
    let directory = scratch.path().join("layout");
    let layout = three_layers(directory.clone());
    let platform = |mut manifest: serde_json::Value, architecture: &str| {
        manifest["platform"] = serde_json::json!({ "os": "linux", "architecture": architecture });
        manifest
    };
    let foreign = platform(
        Layout::new(directory.clone()).manifest("s390x", &[]),
        "s390x",
    );
    let ours = platform(
        layout.manifest(here(), &["PATH=/bin", "EMPTY=", "A=b=c", "broken"]),
        here(),
    );
    let inner = serde_json::json!({ "schemaVersion": 2, "manifests": [foreign, ours] });
    layout.index(&[layout.blob(
        "application/vnd.oci.image.index.v1+json",
        inner.to_string().as_bytes(),
    )]);

    let record = store.import(&text(&directory)).unwrap();
    assert_eq!(record.source, BaseSource::OciLayout);
    let env = [("PATH", "/bin"), ("EMPTY", ""), ("A", "b=c")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(record.env, BTreeMap::from(env));
    check_three_layers(&store.rootfs());
}

#[test]
fn oci_layout_in_a_tar_is_imported_without_its_blobs() {
    let scratch = scratch();
    let store = store(&scratch);
    let directory = scratch.path().join("layout");
    let layout = three_layers(directory.clone());
    layout.index(&[layout.manifest(here(), &[])]);
    let archive = scratch.path().join("image");
    tar_of(&directory, &archive, &["--gzip"]);
    assert_eq!(
        ImportSource::parse(&text(&archive)).unwrap(),
        ImportSource::OciArchive(archive.clone())
    );
    store.import(&text(&archive)).unwrap();
    check_three_layers(&store.rootfs());
    assert!(!store.directory.join("bases/base/image").exists());
}

#[test]
fn a_damaged_blob_is_found_by_its_digest() {
    let scratch = scratch();
    let store = store(&scratch);
    let directory = scratch.path().join("layout");
    let layout = three_layers(directory.clone());
    let manifest = layout.manifest(here(), &[]);
    layout.index(std::slice::from_ref(&manifest));
    let path_of = |descriptor: &serde_json::Value| {
        directory.join("blobs/sha256").join(
            descriptor["digest"]
                .as_str()
                .unwrap()
                .strip_prefix("sha256:")
                .unwrap(),
        )
    };
    for blob in [&layout.layers[0], &layout.layers[2], &manifest] {
        let path = path_of(blob);
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        let last = bad.len() - 1;
        bad[last] ^= 1;
        fs::write(&path, bad).unwrap();
        let error = store.import(&text(&directory)).unwrap_err();
        assert_eq!(error.field(), Some("source"));
        assert!(
            error.chain().contains("damaged")
                && error.chain().contains(blob["digest"].as_str().unwrap()),
            "{}",
            error.chain()
        );
        store.nothing_left();
        fs::write(&path, good).unwrap();
    }
    store.import(&text(&directory)).unwrap();
}

#[test]
fn an_image_for_another_machine_or_without_a_choice_is_refused() {
    let scratch = scratch();
    let store = store(&scratch);
    let directory = scratch.path().join("layout");
    let layout = three_layers(directory.clone());
    layout.index(&[layout.manifest("s390x", &[])]);
    let error = store.import(&text(&directory)).unwrap_err();
    assert!(
        error.chain().contains("s390x") && error.hint().unwrap().contains(here()),
        "{}",
        error.chain()
    );
    let named = |name: &str| {
        let mut manifest = layout.manifest(here(), &[name]);
        manifest["annotations"] = serde_json::json!({ "org.opencontainers.image.ref.name": name });
        manifest
    };
    layout.index(&[named("one"), named("two")]);
    let error = store.import(&text(&directory)).unwrap_err();
    assert!(error.chain().contains("one, two"), "{}", error.chain());
    store.nothing_left();
}

#[test]
fn a_layout_cannot_name_files_outside_itself() {
    let scratch = scratch();
    let store = store(&scratch);
    let directory = scratch.path().join("layout");
    let layout = Layout::new(directory.clone());
    fs::write(scratch.path().join("secret"), "{}").unwrap();
    for digest in [
        "sha256:../../../secret",
        "sha256:/etc/passwd",
        "../secret",
        "sha512:00",
    ] {
        layout.index(&[serde_json::json!({ "digest": digest, "size": 2 })]);
        assert_eq!(
            store.import(&text(&directory)).unwrap_err().code(),
            ErrorCode::InvalidArgument,
            "{digest}"
        );
    }
}

#[test]
fn a_docker_archive_is_imported_and_checked() {
    let scratch = scratch();
    let store = store(&scratch);
    let directory = scratch.path().join("saved");
    fs::create_dir(&directory).unwrap();
    let layers = [
        layer(&[
            ("etc/", ""),
            ("etc/a", "one"),
            ("etc/gone", "x"),
            ("data/old", "x"),
        ]),
        layer(&[
            ("etc/a", "two"),
            ("etc/.wh.gone", ""),
            ("data/.wh..wh..opq", ""),
            ("data/new", "three"),
        ]),
    ];
    let ids: Vec<_> = layers.iter().map(|layer| sha256(layer)).collect();
    for (id, layer) in ids.iter().zip(&layers) {
        fs::create_dir(directory.join(id)).unwrap();
        fs::write(directory.join(id).join("layer.tar"), layer).unwrap();
    }
    let diff_ids: Vec<_> = ids.iter().map(|id| format!("sha256:{id}")).collect();
    let config = serde_json::json!({
        "architecture": here(), "os": "linux", "config": { "Env": ["A=1"] }, "rootfs": { "type": "layers", "diff_ids": diff_ids },
    });
    let config_name = format!("{}.json", sha256(config.to_string().as_bytes()));
    fs::write(directory.join(&config_name), config.to_string()).unwrap();
    let paths: Vec<_> = ids.iter().map(|id| format!("{id}/layer.tar")).collect();
    let manifest =
        serde_json::json!([{ "Config": config_name, "RepoTags": ["a:b"], "Layers": paths }]);
    fs::write(directory.join("manifest.json"), manifest.to_string()).unwrap();
    let archive = scratch.path().join("image.tar");
    tar_of(&directory, &archive, &[]);
    assert_eq!(
        ImportSource::parse(&text(&archive)).unwrap(),
        ImportSource::DockerArchive(archive.clone())
    );
    let record = store.import(&text(&archive)).unwrap();
    assert_eq!(
        (record.source, &record.env["A"]),
        (BaseSource::DockerArchive, &"1".to_owned())
    );
    check_three_layers(&store.rootfs());

    store.storage.delete_base(&record.name).unwrap();
    fs::write(directory.join(&paths[0]), layer(&[("etc/evil", "x")])).unwrap();
    tar_of(&directory, &archive, &[]);
    let error = store.import(&text(&archive)).unwrap_err();
    assert!(error.chain().contains("damaged"), "{}", error.chain());
    store.nothing_left();
}

#[test]
fn images_made_by_umoci_and_skopeo_are_imported() {
    let scratch = scratch();
    let (root, layout) = (scratch.path().join("root"), scratch.path().join("layout"));
    small_root(&root);
    let image = format!("{}:latest", layout.display());
    run(Command::new("umoci")
        .arg("init")
        .arg("--layout")
        .arg(&layout));
    run(Command::new("umoci").args(["new", "--image", &image]));
    run(Command::new("umoci").args(["config", "--config.env", "MADE=by-umoci", "--image", &image]));
    run(Command::new("umoci")
        .args(["insert", "--image", &image])
        .arg(&root)
        .arg("/"));
    run(Command::new("umoci").args(["insert", "--whiteout", "--image", &image, "/etc/motd"]));
    let saved = scratch.path().join("saved.tar");
    run(Command::new("skopeo").args([
        "copy",
        "--insecure-policy",
        &format!("oci:{image}"),
        &format!("docker-archive:{}:a:b", saved.display()),
    ]));
    let archived = scratch.path().join("archived.tar");
    run(Command::new("skopeo").args([
        "copy",
        "--insecure-policy",
        &format!("oci:{image}"),
        &format!("oci-archive:{}:a", archived.display()),
    ]));
    for (source, kind) in [
        (layout, BaseSource::OciLayout),
        (saved, BaseSource::DockerArchive),
        (archived, BaseSource::OciLayout),
    ] {
        let own = sandbar_testing::tree::scratch();
        let store = store(&own);
        let record = store.import(&text(&source)).unwrap();
        assert_eq!(record.source, kind);
        assert_eq!(record.env["MADE"], "by-umoci");
        assert!(
            !store.rootfs().join("etc/motd").exists() && store.rootfs().join("usr/bin").is_dir()
        );
        assert_eq!(
            fs::read_link(store.rootfs().join("bin")).unwrap(),
            Path::new("usr/bin")
        );
    }
}

#[test]
fn host_base_runs_host_programs_and_hides_host_users() {
    let scratch = scratch();
    let store = store(&scratch);
    let record = store.import("host").unwrap();
    assert_eq!(record.source, BaseSource::Host);
    assert!(
        record
            .layers
            .iter()
            .any(|layer| layer.directory == LayerDirectory::Host("/usr".into()))
    );
    let volume = SessionId::new("v").unwrap();
    store
        .storage
        .create(
            &volume,
            &VolumeSpec {
                base: record.name,
                quota: None,
            },
        )
        .unwrap();
    let root = store.storage.mount(&volume).unwrap();
    let output = Command::new("chroot")
        .arg(&root)
        .args([
            "/bin/sh",
            "-c",
            "id -un 1000; ls /home; ls -A /root; cat /etc/hostname",
        ])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "user\nuser\n.bashrc\n.profile\nsandbar\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for (path, entry) in tree(&store.rootfs()) {
        let holds = |needle: &[u8]| {
            entry
                .content
                .windows(needle.len())
                .any(|window| window == needle)
        };
        assert!(!holds(b"PRIVATE KEY"), "{}", path.display());
        // The sandbox has its own file, without passwords.
        if path == Path::new("etc/shadow") || path == Path::new("etc/sudoers") {
            assert!(!holds(b"$"), "{}", path.display());
            continue;
        }
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        assert!(
            !["shadow", "id_rsa", "sudoers", "machine-id"]
                .iter()
                .any(|word| name.contains(word)),
            "{}",
            path.display()
        );
    }
}

/// A layout with one layer, whose configuration has these `diff_ids`.
fn layout_with_ids(directory: PathBuf, layer: &[u8], ids: &[String]) -> Layout {
    let mut layout = Layout::new(directory);
    layout.layer(layer);
    let config = serde_json::json!({
        "architecture": here(), "os": "linux", "rootfs": { "type": "layers", "diff_ids": ids },
    });
    let config = layout.blob(
        "application/vnd.oci.image.config.v1+json",
        config.to_string().as_bytes(),
    );
    let manifest =
        serde_json::json!({ "schemaVersion": 2, "config": config, "layers": layout.layers });
    let manifest = layout.blob(
        "application/vnd.oci.image.manifest.v1+json",
        manifest.to_string().as_bytes(),
    );
    layout.index(&[manifest]);
    layout
}

#[test]
fn diff_ids_of_a_layout_are_compared() {
    let scratch = scratch();
    let store = store(&scratch);
    let plain = layer(&[("etc/", ""), ("etc/a", "one")]);
    let id = format!("sha256:{}", sha256(&plain));
    let other = format!("sha256:{}", sha256(b"other"));
    for (name, ids, why) in [
        ("wrong", vec![other.clone()], "is damaged"),
        ("many", vec![id.clone(), other], "lists 2 layers"),
    ] {
        let directory = scratch.path().join(name);
        layout_with_ids(directory.clone(), &gzip(&plain), &ids);
        let error = store.import(&text(&directory)).unwrap_err();
        assert!(error.chain().contains(why), "{}", error.chain());
        store.nothing_left();
    }
    let directory = scratch.path().join("right");
    layout_with_ids(directory.clone(), &gzip(&plain), &[id]);
    store.import(&text(&directory)).unwrap();
}

#[test]
fn descriptor_of_another_size_is_refused() {
    let scratch = scratch();
    let store = store(&scratch);
    let directory = scratch.path().join("layout");
    let layout = Layout::new(directory.clone());
    let mut manifest = layout.manifest(here(), &[]);
    manifest["size"] = (manifest["size"].as_u64().unwrap() + 1).into();
    layout.index(&[manifest]);
    let error = store.import(&text(&directory)).unwrap_err();
    assert!(error.chain().contains("bytes, not"), "{}", error.chain());
    store.nothing_left();
}

#[test]
fn image_of_too_many_layers_is_refused() {
    let scratch = scratch();
    let store = store(&scratch);
    let directory = scratch.path().join("layout");
    let mut layout = Layout::new(directory.clone());
    layout.layer(&layer(&[("a", "x")]));
    layout.layers = vec![layout.layers[0].clone(); 513];
    let manifest = layout.manifest(here(), &[]);
    layout.index(&[manifest]);
    let error = store.import(&text(&directory)).unwrap_err();
    assert!(
        error
            .chain()
            .contains("513 layers, more than the limit of 512"),
        "{}",
        error.chain()
    );
    store.nothing_left();
}

#[test]
fn blob_that_is_no_regular_file_is_not_opened() {
    use rustix::fs::FileType;
    use sandbar_testing::tree::make_node;
    let scratch = scratch();
    let store = store(&scratch);
    // `/dev/zero` never ends; a pipe without a writer blocks.
    for (name, kind, major, minor) in [
        ("zero", FileType::CharacterDevice, 1, 5),
        ("pipe", FileType::Fifo, 0, 0),
    ] {
        let directory = scratch.path().join(name);
        let mut layout = Layout::new(directory.clone());
        layout.layer(&layer(&[("a", "x")]));
        let digest = layout.layers[0]["digest"].as_str().unwrap().to_owned();
        let manifest = layout.manifest(here(), &[]);
        layout.index(&[manifest]);
        let blob = directory
            .join("blobs/sha256")
            .join(digest.strip_prefix("sha256:").unwrap());
        fs::remove_file(&blob).unwrap();
        make_node(&blob, kind, major, minor);
        let error = store.import(&text(&directory)).unwrap_err();
        assert!(
            error.chain().contains("is not a regular file"),
            "{}",
            error.chain()
        );
        let archive = scratch.path().join(format!("{name}.tar"));
        tar_of(&directory, &archive, &[]);
        let error = store.import(&text(&archive)).unwrap_err();
        assert!(
            error.chain().contains("no readable file"),
            "{}",
            error.chain()
        );
        store.nothing_left();
    }
}

#[test]
fn cancelled_import_ends_and_leaves_nothing() {
    let scratch = scratch();
    let store = store(&scratch);
    let root = scratch.path().join("root");
    small_root(&root);
    for number in 0..200 {
        fs::write(root.join(format!("file-{number}")), "x").unwrap();
    }
    let archive = scratch.path().join("root.tar");
    tar_of(&root, &archive, &[]);
    for source in [text(&root), text(&archive)] {
        let calls = std::cell::Cell::new(0);
        let check = || {
            calls.set(calls.get() + 1);
            if calls.get() > 40 {
                return Err(Error::new(ErrorCode::Unavailable, "caller is gone"));
            }
            Ok(())
        };
        let error = sandbar_storage::import_base_while(
            &*store.storage,
            &"cancelled".parse().unwrap(),
            &ImportSource::parse(&source).unwrap(),
            &|_| {},
            &check,
        )
        .unwrap_err();
        assert_eq!(error.message(), "caller is gone");
        assert_eq!(calls.get(), 41, "work went on after the check failed");
        store.nothing_left();
    }
}

#[test]
fn devices_in_an_imported_archive_are_left_out() {
    use rustix::fs::FileType;
    use sandbar_testing::tree::make_node;
    let scratch = scratch();
    let store = store(&scratch);
    let root = scratch.path().join("root");
    small_root(&root);
    make_node(&root.join("disk"), FileType::BlockDevice, 8, 0);
    make_node(&root.join("whiteout"), FileType::CharacterDevice, 0, 0);
    make_node(&root.join("pipe"), FileType::Fifo, 0, 0);
    let archive = scratch.path().join("root.tar");
    tar_of(&root, &archive, &[]);
    store.import(&text(&archive)).unwrap();
    let rootfs = store.rootfs();
    let exists = |name: &str| fs::symlink_metadata(rootfs.join(name)).is_ok();
    assert!(!exists("disk") && !exists("whiteout") && exists("pipe"));
}
