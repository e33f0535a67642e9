//! Invalid specs and configurations, and their errors.

use std::{fs, path::Path};

use sandbar_core::{
    ByteCount, Error, ErrorCode, NetworkPolicy, PageRequest, RuntimeKind, SessionFilter,
    StorageKind,
};
use sandbar_host::{Host, HostConfig, RuntimeChoice, StorageChoice};
use sandbar_testing::{FileSystem, Image, private_mounts, tree};

use crate::fixture::spec;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
        .unwrap()
        .block_on(future)
}

fn config(data_dir: &Path) -> HostConfig {
    HostConfig {
        data_dir: data_dir.to_owned(),
        storage_backend: StorageChoice::Named(StorageKind::LocalDisk),
        container_runtime: RuntimeChoice::Named(RuntimeKind::None),
        ..HostConfig::default()
    }
}

async fn refused(config: HostConfig) -> Error {
    Host::start(config).await.map(|_| ()).unwrap_err()
}

#[test]
fn data_directory_is_locked_by_one_host() {
    private_mounts();
    let scratch = tree::scratch();
    block_on(async {
        let first = Host::start(config(scratch.path())).await.unwrap();
        let error = refused(config(scratch.path())).await;
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidState, Some("data_dir"))
        );
        assert!(
            error
                .message()
                .contains(&format!("pid {}", std::process::id())),
            "{error}"
        );
        first.shutdown().await.unwrap();
        drop(first);
        Host::start(config(scratch.path()))
            .await
            .unwrap()
            .shutdown()
            .await
            .unwrap();
    });
}

#[test]
fn read_only_data_directory_is_refused_with_a_hint() {
    private_mounts();
    let scratch = tree::scratch();
    let image = Image::new(scratch.path(), FileSystem::Tmpfs, 16);
    rustix::mount::mount_remount(image.path(), rustix::mount::MountFlags::RDONLY, "").unwrap();
    let error = block_on(refused(config(&image.path().join("data"))));
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::PermissionDenied, Some("data_dir"))
    );
    assert!(error.hint().unwrap().contains("--data-dir"));
}

#[test]
fn full_disk_is_refused_with_a_hint_and_changes_nothing() {
    private_mounts();
    let scratch = tree::scratch();
    let image = Image::new(scratch.path(), FileSystem::Tmpfs, 16);
    let data = image.path().join("data");
    fs::create_dir(&data).unwrap();
    let _ = fs::write(image.path().join("filler"), vec![1; 32 << 20]);
    let error = block_on(refused(config(&data)));
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::StorageFull, Some("data_dir")),
        "{}",
        error.chain()
    );
    assert!(error.hint().unwrap().contains("--data-dir"));
    fs::remove_file(image.path().join("filler")).unwrap();
    block_on(async {
        Host::start(config(&data))
            .await
            .unwrap()
            .shutdown()
            .await
            .unwrap();
    });
}

#[test]
fn unavailable_storage_is_an_error_without_fallback() {
    private_mounts();
    let scratch = tree::scratch();
    let zfs = HostConfig {
        storage_backend: StorageChoice::Named(StorageKind::Zfs),
        ..config(scratch.path())
    };
    let error = block_on(refused(zfs.clone()));
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::InvalidArgument, Some("pool_name"))
    );
    let error = block_on(refused(HostConfig {
        pool_name: Some("no-such-pool".into()),
        ..zfs
    }));
    assert!(
        error.hint().is_some() && error.message().contains("no-such-pool"),
        "{}",
        error.chain()
    );
    let image = Image::new(scratch.path(), FileSystem::Tmpfs, 64);
    let btrfs = HostConfig {
        storage_backend: StorageChoice::Named(StorageKind::Btrfs),
        ..config(&image.path().join("data"))
    };
    let error = block_on(refused(btrfs));
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::StorageFull, Some("data_dir")),
        "{}",
        error.chain()
    );
    assert!(!image.path().join("data/storage/pool.btrfs").exists());
}

#[test]
fn unsupported_spec_is_refused_and_creates_nothing() {
    private_mounts();
    let scratch = tree::scratch();
    block_on(async {
        let host = Host::start(config(scratch.path())).await.unwrap();
        let mut unknown_base = spec("s");
        unknown_base.base = "no-such-base".parse().unwrap();
        let mut quota = spec("s");
        quota.base = "host".parse().unwrap();
        quota.quota = Some(ByteCount::mib(10));
        let mut network = spec("s");
        network.network = Some(NetworkPolicy::none());
        let mut memory = spec("s");
        memory.resources.memory = Some(ByteCount(0));
        for (spec, code, field) in [
            (unknown_base, ErrorCode::BaseNotFound, "base_snapshot"),
            (quota, ErrorCode::InvalidArgument, "quota"),
            (network, ErrorCode::InvalidArgument, "network"),
            (memory, ErrorCode::InvalidArgument, "resources.memory"),
        ] {
            let error = host.create_session(spec).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (code, Some(field)),
                "{}",
                error.chain()
            );
            assert!(error.hint().is_some(), "{field} has no hint");
        }
        let listed = host
            .list_sessions(&SessionFilter::default(), &PageRequest::default())
            .await
            .unwrap();
        assert!(listed.items.is_empty());
        assert!(
            fs::read_dir(scratch.path().join("storage/volumes"))
                .unwrap()
                .next()
                .is_none()
        );
        host.shutdown().await.unwrap();
    });
}
