//! More waiting callers than tokio's blocking pool has threads.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use sandbar_core::{ErrorCode, RuntimeKind};
use sandbar_testing::Backend;
use serde_json::json;
use tokio::time::timeout;

use crate::{fixture::HostFixture, tools::named};

/// The pool has 512 threads.
const CALLERS: usize = 600;

/// Far above what any step here takes, and far below the drain timeout.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn waiting_callers_leave_threads_for_the_tool_they_wait_for() {
    let configure = |config: &mut sandbar_host::HostConfig| {
        config.pause_drain_timeout = Duration::from_mins(2);
    };
    HostFixture::run_with(
        Backend::LocalDiskExt4,
        RuntimeKind::None,
        configure,
        |fixture| {
            Box::pin(async move {
                let (busy, other) = (
                    fixture.machine("busy").await,
                    fixture.machine("other").await,
                );
                let tool = named(
                    "long",
                    "bash",
                    json!({"cmd": "echo begun; sleep 3; echo done"}),
                );
                let mut execution = fixture.host.execute_tool_stream(&busy, tool).await.unwrap();
                execution.next_event().await.unwrap().unwrap();

                let callers: Vec<_> = (0..CALLERS)
                    .map(|_| {
                        let (host, busy) = (Arc::clone(&fixture.host), busy.clone());
                        tokio::spawn(async move { host.destroy_session(&busy).await })
                    })
                    .collect();
                fixture
                    .eventually("the session is closed to others", async || {
                        let stat = timeout(STEP_TIMEOUT, fixture.host.stat(&busy, "/".as_ref()));
                        let closed = stat.await.unwrap().err()?;
                        assert_eq!(closed.code(), ErrorCode::SessionDestroying);
                        Some(())
                    })
                    .await;

                // Another session works while they wait, and the tool ends by itself.
                let shell = timeout(STEP_TIMEOUT, fixture.shell(&other, "echo works")).await;
                assert_eq!(shell.unwrap(), ("works\n".to_owned(), Some(0)));
                let response = timeout(STEP_TIMEOUT, execution.answer()).await;
                assert_eq!(response.unwrap().unwrap().content, "begun\ndone\n");
                let destroyed = timeout(STEP_TIMEOUT, join_all(callers)).await.unwrap();
                assert!(destroyed.into_iter().all(|caller| caller.unwrap().is_ok()));
                assert_eq!(
                    fixture.host.get_session(&busy).await.unwrap_err().code(),
                    ErrorCode::SessionNotFound
                );
            })
        },
    );
}
