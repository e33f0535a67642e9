//! Git in the sandbox, on good repositories and on hostile ones.

use std::pin::Pin;

use sandbar_core::SessionId;
use serde_json::json;

use crate::fixture::HostFixture;

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

const AUTHOR: &str = "An Agent <agent@example.com>";

async fn repository(fixture: &HostFixture, id: &SessionId) {
    fixture
        .done(
            id,
            "bash",
            json!({"cmd": "git init -q -b main repo && git init -q --bare -b main origin"}),
        )
        .await;
    fixture
        .done(
            id,
            "write_file",
            json!({"path": "repo/-odd name", "content": "one\n"}),
        )
        .await;
    fixture
        .done(
            id,
            "git_add",
            json!({"cwd": "repo", "paths": ["-odd name"]}),
        )
        .await;
    fixture
        .done(
            id,
            "git_commit",
            json!({"cwd": "repo", "message": "-first", "author": AUTHOR}),
        )
        .await;
}

pub(crate) fn git_tools_work_from_clone_to_push(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        repository(fixture, &id).await;
        let log = fixture.done(&id, "git_log", json!({"cwd": "repo"})).await;
        assert!(
            log.contains("Author: An Agent <agent@example.com>") && log.contains("    -first"),
            "{log}"
        );
        fixture
            .done(
                &id,
                "bash",
                json!({"cmd": "git remote add origin /workspace/origin", "cwd": "repo"}),
            )
            .await;
        let push = json!({"cwd": "repo", "remote": "origin", "ref": "main", "set_upstream": true});
        fixture.done(&id, "git_push", push).await;

        fixture
            .done(
                &id,
                "git_clone",
                json!({"url": "/workspace/origin", "path": "copy", "branch": "main"}),
            )
            .await;
        fixture
            .done(
                &id,
                "write_file",
                json!({"path": "copy/-odd name", "content": "two\n"}),
            )
            .await;
        assert!(
            fixture
                .done(&id, "git_status", json!({"cwd": "copy"}))
                .await
                .contains("modified:   -odd name")
        );
        let diff = fixture
            .done(
                &id,
                "git_diff",
                json!({"cwd": "copy", "paths": ["-odd name"]}),
            )
            .await;
        assert!(diff.contains("-one\n+two\n"), "{diff}");
        assert_eq!(
            fixture
                .done(&id, "git_diff", json!({"cwd": "copy", "staged": true}))
                .await,
            ""
        );
        // No identity is configured, and none is asked for.
        fixture
            .done(
                &id,
                "git_commit",
                json!({"cwd": "copy", "message": "second", "all": true}),
            )
            .await;
        fixture.done(&id, "git_push", json!({"cwd": "copy"})).await;

        fixture
            .done(
                &id,
                "git_fetch",
                json!({"cwd": "repo", "remote": "origin", "ref": "main", "prune": true}),
            )
            .await;
        let between = json!({"cwd": "repo", "from": "main", "to": "origin/main", "stat": true});
        assert!(
            fixture
                .done(&id, "git_diff", between)
                .await
                .contains("1 file changed")
        );
        fixture
            .done(
                &id,
                "git_pull",
                json!({"cwd": "repo", "remote": "origin", "ref": "main"}),
            )
            .await;
        let shown = fixture
            .done(
                &id,
                "git_show",
                json!({"cwd": "repo", "ref": "HEAD:-odd name"}),
            )
            .await;
        assert_eq!(shown, "two\n");
        let log = json!({"cwd": "repo", "ref": "main", "oneline": true, "max_count": 1, "paths": ["-odd name"]});
        assert!(
            fixture
                .done(&id, "git_log", log)
                .await
                .ends_with("second\n")
        );

        let missing = fixture
            .tool(&id, "git_show", json!({"cwd": "repo", "ref": "nonsense"}))
            .await;
        assert_eq!((missing.is_error, missing.exit_code), (true, Some(128)));
        // No password is requested, and nothing waits for one.
        let private = json!({"url": "http://127.0.0.1:9/private.git", "path": "private"});
        assert!(fixture.tool(&id, "git_clone", private).await.is_error);
    })
}

/// Everything a repository can make git run, each leaving a mark.
const TRAPS: &str = r#"
cd repo
mark() { printf '#!/bin/sh\ntouch "%s-%s"\ncat >/dev/null 2>&1\nexit 0\n' "$MARK" "$1" > "/workspace/trap-$1"; chmod +x "/workspace/trap-$1"; }
for trap in fsmonitor pager editor external textconv clean smudge process hook alias askpass ssh credential upload gpg include; do mark $trap; done
git config core.fsmonitor /workspace/trap-fsmonitor
git config core.pager /workspace/trap-pager
git config core.editor /workspace/trap-editor
git config core.askPass /workspace/trap-askpass
git config core.sshCommand /workspace/trap-ssh
git config credential.helper /workspace/trap-credential
git config diff.external /workspace/trap-external
git config diff.evil.textconv /workspace/trap-textconv
git config filter.evil.clean /workspace/trap-clean
git config filter.evil.smudge /workspace/trap-smudge
git config gpg.program /workspace/trap-gpg
git config alias.status '!/workspace/trap-alias'
git config core.hooksPath /workspace/repo/hooks
mkdir -p hooks
for hook in pre-commit post-commit pre-push post-checkout post-merge prepare-commit-msg commit-msg fsmonitor-watchman post-index-change; do
    cp /workspace/trap-hook hooks/$hook
done
printf '* diff=evil filter=evil\n' > .gitattributes
printf '*.log\n' > .gitignore
printf '[core]\n\tfsmonitor = /workspace/trap-include\n' > evil-config
git config include.path ../evil-config
echo needle > file
echo needle > file.log
# Another size, so that git sees a change and does not take the old content for granted.
echo changed > './-odd name'
"#;

pub(crate) fn hostile_repository_runs_nothing_on_the_host(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        repository(fixture, &id).await;
        // The same path outside and inside: what runs outside would leave its mark outside.
        let mark = format!("/var/tmp/sandbar-test-mark-{}", SessionId::random());
        let marks_outside = || {
            let names = std::fs::read_dir("/var/tmp")
                .unwrap()
                .map(|entry| entry.unwrap().path());
            names
                .filter(|path| path.to_string_lossy().starts_with(&mark))
                .collect::<Vec<_>>()
        };
        fixture
            .done(&id, "bash", json!({"cmd": "mkdir -p /var/tmp"}))
            .await;
        fixture
            .done(&id, "bash", json!({"cmd": TRAPS, "env": {"MARK": mark}}))
            .await;
        let marks_inside = async || {
            fixture
                .done(
                    &id,
                    "bash",
                    json!({"cmd": format!("for mark in {mark}-*; do test -e $mark && echo $mark; done; true")}),
                )
                .await
        };

        // Tools in the host's process read the same repository, and set nothing off, not even
        // inside.
        fixture
            .done(&id, "bash", json!({"cmd": format!("rm -f {mark}-*")}))
            .await;
        assert_eq!(
            fixture
                .done(&id, "grep", json!({"pattern": "needle", "path": "repo"}))
                .await,
            "repo/file:1:needle\n"
        );
        assert_eq!(
            fixture
                .done(&id, "glob", json!({"pattern": "repo/file*"}))
                .await,
            "repo/file\n"
        );
        fixture
            .done(&id, "read_file", json!({"path": "repo/file"}))
            .await;
        fixture
            .done(
                &id,
                "edit_file",
                json!({"path": "repo/file", "old_string": "needle", "new_string": "thread"}),
            )
            .await;
        fixture
            .done(
                &id,
                "write_file",
                json!({"path": "repo/new", "content": "x"}),
            )
            .await;
        fixture
            .done(&id, "list_dir", json!({"path": "repo", "depth": 4}))
            .await;
        assert_eq!(marks_inside().await, "");

        // Git runs hooks and filters in the sandbox only.
        for (tool, params) in [
            ("git_status", json!({"cwd": "repo"})),
            ("git_diff", json!({"cwd": "repo"})),
            ("git_add", json!({"cwd": "repo", "paths": ["."]})),
            ("git_commit", json!({"cwd": "repo", "message": "m"})),
            ("git_log", json!({"cwd": "repo"})),
            ("git_show", json!({"cwd": "repo"})),
            (
                "git_push",
                json!({"cwd": "repo", "remote": "/workspace/origin", "ref": "main"}),
            ),
            (
                "git_fetch",
                json!({"cwd": "repo", "remote": "ext::/workspace/trap-upload"}),
            ),
            (
                "git_pull",
                json!({"cwd": "repo", "remote": "/workspace/origin", "ref": "main"}),
            ),
            (
                "git_clone",
                json!({"cwd": "repo", "url": "ssh://nobody@127.0.0.1/x", "path": "y"}),
            ),
        ] {
            fixture.tool(&id, tool, params).await;
        }
        let inside = marks_inside().await;
        for trap in ["hook", "clean", "external", "textconv", "include"] {
            assert!(
                inside.contains(&format!("{mark}-{trap}")),
                "the trap `{trap}` was not armed: {inside}"
            );
        }
        assert_eq!(marks_outside(), Vec::<std::path::PathBuf>::new());
    })
}
