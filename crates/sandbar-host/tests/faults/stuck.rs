//! A session whose calls do not end: other sessions, and other calls of its own, proceed.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use jiff::Timestamp;
use sandbar_core::{ErrorCode, ExecSpec, OnExpiry, Quiesce, RuntimeKind, SessionId};
use sandbar_testing::Backend;
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    fixture::{FILE, FaultyHost, settled, snap, with_faults},
    switchboard::Fault,
};

/// The pool of brief work has 512 threads.
const CALLERS: usize = 600;

/// Far above what a step takes on a host that is not stuck.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until an armed call hangs.
async fn hanging(faulty: &FaultyHost) {
    settled(async || {
        if faulty.faults.hangs() {
            Ok(())
        } else {
            Err("no call hangs".into())
        }
    })
    .await;
}

/// Starts a command, which starts a box.
fn exec(faulty: &FaultyHost, id: &SessionId) -> JoinHandle<sandbar_core::Result<()>> {
    let (host, id) = (Arc::clone(faulty.host()), id.clone());
    tokio::spawn(async move { host.exec(&id, ExecSpec::new(["true"])).await.map(drop) })
}

#[test]
fn hundreds_of_stuck_calls_leave_threads_for_others() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        let (stuck, other) = (faulty.create("stuck").await, faulty.create("other").await);
        faulty.write(&other, "one").await.unwrap();
        faulty.shell(&other, "true").await.unwrap();
        let host = faulty.host();
        host.create_snapshot(&stuck, Some(snap("a")), Quiesce::WhereNeeded)
            .await
            .unwrap();
        faulty.faults.arm(&[
            (("snapshot", 0), Fault::Hang),
            (("runtime open_sandbox", 0), Fault::Hang),
        ]);
        let first = {
            let (host, stuck) = (Arc::clone(host), stuck.clone());
            tokio::spawn(async move {
                host.create_snapshot(&stuck, Some(snap("b")), Quiesce::WhereNeeded)
                    .await
            })
        };
        hanging(faulty).await;
        // Each waits for the snapshot, or for the start of the box.
        let stuck_id = stuck.clone();
        let mut deletions = Vec::new();
        let mut starts = Vec::new();
        for _ in 0..CALLERS {
            let (host, stuck) = (Arc::clone(host), stuck.clone());
            deletions.push(tokio::spawn(async move {
                host.delete_snapshot(&stuck, &snap("a")).await
            }));
            starts.push(exec(faulty, &stuck_id));
        }
        settled(async || {
            if faulty.faults.fired() == 2 {
                Ok(())
            } else {
                Err("no box is being started".into())
            }
        })
        .await;
        for _ in 0..50 {
            let step = async {
                host.stat(&other, FILE.as_ref()).await.unwrap();
                faulty.shell(&other, "true").await.unwrap();
                // The session itself can be shown.
                host.get_session(&stuck).await.unwrap();
            };
            timeout(STEP_TIMEOUT, step)
                .await
                .expect("another session waits for a stuck one");
        }
        faulty.faults.release();
        first.await.unwrap().unwrap();
        for start in join_all(starts).await {
            start.unwrap().unwrap();
        }
        let outcomes = join_all(deletions).await;
        let deleted = outcomes.into_iter().filter(|outcome| match outcome {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                assert_eq!(error.code(), ErrorCode::SnapshotNotFound, "{error:?}");
                false
            }
            Err(error) => panic!("{error}"),
        });
        assert!(deleted.count() > 0);
    });
}

#[test]
fn files_are_read_and_written_while_a_box_start_hangs() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        let id = faulty.create("s").await;
        faulty.write(&id, "one").await.unwrap();
        faulty
            .faults
            .arm(&[(("runtime open_sandbox", 0), Fault::Hang)]);
        let start = exec(faulty, &id);
        hanging(faulty).await;
        let step = async {
            faulty.write(&id, "two").await.unwrap();
            assert_eq!(faulty.read(&id).await.unwrap().as_deref(), Some("two"));
            let watch = faulty.host().watch_dir(&id, "/workspace".as_ref(), true);
            drop(watch.await.unwrap());
            faulty.host().get_session_with_usage(&id).await.unwrap();
        };
        timeout(STEP_TIMEOUT, step)
            .await
            .expect("calls for files wait for the box");
        faulty.faults.release();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn stuck_destruction_delays_no_other_expiry() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        let stuck = faulty.create("stuck").await;
        let mut others = Vec::new();
        for number in 0..5 {
            others.push(faulty.create(&format!("other-{number}")).await);
        }
        faulty.faults.arm(&[(("delete", 0), Fault::Hang)]);
        let expire = async |id: &SessionId| {
            let now = Some(Timestamp::now());
            let set = faulty.host().set_expiry(id, now, OnExpiry::Destroy);
            set.await.unwrap();
        };
        expire(&stuck).await;
        hanging(faulty).await;
        for id in &others {
            expire(id).await;
        }
        let gone = async |id: &SessionId| match faulty.host().get_session(id).await {
            Err(error) if error.code() == ErrorCode::SessionNotFound => Ok(()),
            _ => Err(format!("session `{id}` is still there")),
        };
        for id in &others {
            settled(async || gone(id).await).await;
        }
        assert!(faulty.faults.hangs());
        faulty.faults.release();
        settled(async || gone(&stuck).await).await;
    });
}
