//! Directories that are watched.

use std::{collections::HashSet, pin::Pin};

use sandbar_core::{
    DirChange, DirChangeKind, DirNews, ErrorCode, LaterSnapshots, Resources, ToolCallId,
    ToolRequest,
};
use sandbar_host::DirWatcher;
use serde_json::json;

use crate::fixture::{HostFixture, snap};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

fn words(news: &DirNews) -> String {
    let DirNews::Changed(DirChange { kind, path, is_dir }) = news else {
        return "overflow".to_owned();
    };
    let path = format!("{}{}", path.display(), if *is_dir { "/" } else { "" });
    match kind {
        DirChangeKind::Created => format!("created {path}"),
        DirChangeKind::Written => format!("written {path}"),
        DirChangeKind::Removed | DirChangeKind::Left => format!("removed {path}"),
        DirChangeKind::Attributes => format!("attributes {path}"),
        DirChangeKind::Renamed { from } => format!("{} -> {path}", from.display()),
    }
}

/// Everything up to a change.
async fn until(watcher: &mut DirWatcher, last: &str) -> HashSet<String> {
    let mut told = HashSet::new();
    loop {
        let news = words(&watcher.next().await.unwrap());
        let is_last = news == last;
        told.insert(news);
        if is_last {
            return told;
        }
    }
}

pub(crate) fn watch_reports_changes_of_commands_and_calls(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture
            .shell(&id, "mkdir -p old/deep; echo x > old/deep/file")
            .await;
        let mut watcher = fixture
            .host
            .watch_dir(&id, "/workspace".as_ref(), true)
            .await
            .unwrap();
        let script = "
            echo a > made; echo b >> old/deep/file; mkdir -p new/below; echo c > new/below/inside
            mv made renamed; chmod 600 renamed; rm renamed; echo > end";
        assert_eq!(fixture.shell(&id, script).await.1, Some(0));
        let told = until(&mut watcher, "created /workspace/end").await;
        for expected in [
            "created /workspace/made",
            "written /workspace/made",
            "written /workspace/old/deep/file",
            "created /workspace/new/",
            "created /workspace/new/below/",
            "created /workspace/new/below/inside",
            "/workspace/made -> /workspace/renamed",
            "attributes /workspace/renamed",
            "removed /workspace/renamed",
        ] {
            assert!(told.contains(expected), "{expected}: {told:#?}");
        }
        // Tools of the host, and calls that move files.
        let serde_json::Value::Object(params) = json!({"path": "new/by-tool", "content": "x"})
        else {
            panic!("no object")
        };
        let (tool, call) = ("write_file".to_owned(), ToolCallId::new("1").unwrap());
        fixture
            .host
            .execute_tool(
                &id,
                ToolRequest {
                    tool,
                    call,
                    params,
                    resources: Resources::default(),
                },
            )
            .await
            .unwrap();
        loop {
            if words(&watcher.next().await.unwrap()).ends_with("-> /workspace/new/by-tool") {
                break;
            }
        }
        fixture.shell(&id, "rm -r new").await;
        until(&mut watcher, "removed /workspace/new/").await;
    })
}

pub(crate) fn watch_ends_with_its_directory_or_session(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.write(&id, "d/file", "x").await;
        fixture.snapshot(&id, "a").await;
        let missing = fixture
            .host
            .watch_dir(&id, "/nowhere".as_ref(), true)
            .await
            .unwrap_err();
        assert_eq!(
            (missing.code(), missing.field()),
            (ErrorCode::FileNotFound, Some("path"))
        );
        let file = fixture
            .host
            .watch_dir(&id, "/workspace/d/file".as_ref(), false)
            .await
            .unwrap_err();
        assert_eq!(file.code(), ErrorCode::FileNotFound, "{file:?}");

        let watch = async || {
            fixture
                .host
                .watch_dir(&id, "d".as_ref(), true)
                .await
                .unwrap()
        };
        let mut rolled_back = watch().await;
        fixture
            .host
            .rollback_session(&id, &snap("a"), LaterSnapshots::Drop)
            .await
            .unwrap();
        let error = rolled_back.next().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        assert!(error.message().contains("rolled back"), "{error}");

        let mut hibernated = watch().await;
        fixture.host.hibernate_session(&id).await.unwrap();
        assert_eq!(
            hibernated.next().await.unwrap_err().code(),
            ErrorCode::SessionPaused
        );
        fixture.host.wake_session(&id).await.unwrap();

        let mut destroyed = watch().await;
        fixture.write(&id, "d/more", "x").await;
        let mut waits = watch().await;
        fixture.host.destroy_session(&id).await.unwrap();
        assert_eq!(
            destroyed.next().await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        assert_eq!(
            waits.next().await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
    })
}
