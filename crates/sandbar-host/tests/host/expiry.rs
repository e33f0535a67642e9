//! Sessions whose time is up.

use std::{pin::Pin, time::Duration};

use jiff::Timestamp;
use sandbar_core::{
    Capability, Error, ErrorCode, ExecSpec, OnExpiry, ProcessSpec, SessionId, SessionInfo,
    SessionState, ToolEvent,
};
use sandbar_host::HostConfig;
use serde_json::json;

use crate::{
    fixture::{HostFixture, spec},
    tools::request,
};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// So far away that no test is there to see it.
fn far() -> Timestamp {
    Timestamp::now() + Duration::from_hours(1)
}

async fn state(fixture: &HostFixture, id: &SessionId) -> Option<SessionState> {
    fixture
        .host
        .get_session(id)
        .await
        .ok()
        .map(|session| session.state)
}

/// Waits until the host has paused it.
async fn paused(fixture: &HostFixture, id: &SessionId) -> SessionInfo {
    fixture
        .eventually("it is paused", async || {
            fixture
                .host
                .get_session(id)
                .await
                .ok()
                .filter(|session| session.state == SessionState::Paused)
        })
        .await
}

pub(crate) fn expiry_is_extended_shortened_and_cleared(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let host = &fixture.host;
        // The janitor of this host runs every 30 s, unless it is woken.
        let mut short = spec("short");
        short.time_to_live = Some(Duration::from_hours(1));
        let short = fixture.make(short).await;
        assert_eq!(short.on_expiry, OnExpiry::Destroy);
        let later = far();
        let changed = host
            .set_expiry(&short.id, Some(later), OnExpiry::Pause)
            .await
            .unwrap();
        assert_eq!(
            (changed.expires, changed.on_expiry),
            (Some(later), OnExpiry::Pause)
        );
        let kept = host.set_expiry(&short.id, None, None).await.unwrap();
        assert_eq!((kept.expires, kept.on_expiry), (None, OnExpiry::Pause));
        assert_eq!(
            host.get_session(&short.id).await.unwrap().on_expiry,
            OnExpiry::Pause
        );

        let endless = fixture.session("endless").await;
        host.set_expiry(&endless, Some(Timestamp::now()), OnExpiry::Destroy)
            .await
            .unwrap();
        fixture
            .eventually("it is destroyed", async || {
                state(fixture, &endless).await.is_none().then_some(())
            })
            .await;
        let error = host.set_expiry(&endless, None, None).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionNotFound);
        assert_eq!(state(fixture, &short.id).await, Some(SessionState::Active));
    })
}

pub(crate) fn expired_session_is_paused_if_requested(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let mut spec = spec("s");
        spec.base = "host".parse().unwrap();
        spec.time_to_live = Some(Duration::from_hours(1));
        spec.on_expiry = OnExpiry::Pause;
        let id = fixture.make(spec).await.id;
        let sleeper = fixture
            .host
            .launch_process(&id, ProcessSpec::new(["/bin/sleep", "600"]))
            .await
            .unwrap();
        fixture
            .host
            .set_expiry(&id, Some(Timestamp::now()), None)
            .await
            .unwrap();
        let session = paused(fixture, &id).await;
        assert_eq!(
            (session.expires, session.on_expiry),
            (None, OnExpiry::Pause)
        );
        fixture
            .eventually("it is in the log", async || {
                let log = fixture.entries(&id).await;
                log.into_iter().find(|entry| {
                    entry
                        .detail
                        .get("reason")
                        .is_some_and(|why| why == "expired")
                })
            })
            .await;
        fixture.host.resume_session(&id).await.unwrap();
        // Processes continue if the runtime can freeze, and are stopped otherwise.
        let sleeper = fixture
            .host
            .get_process_status(&id, &sleeper.id)
            .await
            .unwrap();
        let freezes = fixture.host.capabilities().pause == Capability::Yes;
        assert_eq!(sleeper.exit.is_none(), freezes, "{sleeper:?}");
        // It has no end now, and gets a new one.
        fixture
            .host
            .set_expiry(&id, Some(Timestamp::now()), OnExpiry::Pause)
            .await
            .unwrap();
        paused(fixture, &id).await;
    })
}

pub(crate) fn expired_session_is_paused_without_memory_if_requested(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let mut spec = spec("s");
        spec.base = "host".parse().unwrap();
        spec.time_to_live = Some(Duration::from_hours(1));
        spec.on_expiry = OnExpiry::PauseFiles;
        let id = fixture.make(spec).await.id;
        let sleeper = fixture
            .host
            .launch_process(&id, ProcessSpec::new(["/bin/sleep", "600"]))
            .await
            .unwrap();
        fixture
            .host
            .set_expiry(&id, Some(Timestamp::now()), None)
            .await
            .unwrap();
        let session = paused(fixture, &id).await;
        assert_eq!(
            (session.expires, session.on_expiry),
            (None, OnExpiry::PauseFiles)
        );
        // It is stopped now, and not only at the resume.
        fixture
            .eventually("what ran is ended", async || {
                fixture
                    .host
                    .get_process_status(&id, &sleeper.id)
                    .await
                    .unwrap()
                    .exit
                    .map(drop)
            })
            .await;
        assert_eq!(state(fixture, &id).await, Some(SessionState::Paused));
        // This waits for the end of the pause.
        fixture
            .host
            .set_expiry(&id, Some(far()), None)
            .await
            .unwrap();
        fixture.host.resume_session(&id).await.unwrap();
    })
}

pub(crate) fn hibernated_session_that_expires_is_kept_without_expiry(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let (paused, away) = (
            fixture.session("paused").await,
            fixture.session("away").await,
        );
        fixture
            .host
            .pause_session_keeping(&paused, sandbar_core::Keep::Files)
            .await
            .unwrap();
        fixture.host.hibernate_session(&away).await.unwrap();
        for (id, state) in [
            (&paused, SessionState::Paused),
            (&away, SessionState::Hibernated),
        ] {
            fixture
                .host
                .set_expiry(id, Some(Timestamp::now()), OnExpiry::Pause)
                .await
                .unwrap();
            let session = fixture
                .eventually("it has no end", async || {
                    fixture
                        .host
                        .get_session(id)
                        .await
                        .ok()
                        .filter(|session| session.expires.is_none())
                })
                .await;
            assert_eq!(session.state, state);
        }
        fixture.host.resume_session(&paused).await.unwrap();
        fixture.host.wake_session(&away).await.unwrap();
    })
}

pub(crate) fn extension_cancels_a_pause_that_still_drains(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let config = HostConfig {
            pause_drain_timeout: Duration::from_hours(1),
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        let id = fixture.machine("s").await;
        let wait = request(
            "bash",
            json!({"cmd": "touch begun; until test -e end; do :; done"}),
        );
        let mut tool = fixture.host.execute_tool_stream(&id, wait).await.unwrap();
        fixture
            .eventually("the tool runs", async || {
                fixture.read(&id, "/workspace/begun").await
            })
            .await;
        fixture
            .host
            .set_expiry(&id, Some(Timestamp::now()), OnExpiry::Pause)
            .await
            .unwrap();
        fixture
            .eventually("newcomers are kept out", async || {
                let refusal = fixture.host.exec(&id, ExecSpec::new(["true"])).await.err();
                refusal
                    .filter(|refusal| refusal.code() == ErrorCode::SessionPaused)
                    .map(drop)
            })
            .await;
        let session = fixture
            .host
            .set_expiry(&id, Some(far()), None)
            .await
            .unwrap();
        assert_eq!(session.state, SessionState::Active);
        fixture.write(&id, "/workspace/end", "").await;
        while !matches!(
            tool.next_event().await.unwrap().unwrap(),
            ToolEvent::Finished(_)
        ) {}
        assert_eq!(state(fixture, &id).await, Some(SessionState::Active));
    })
}

pub(crate) fn extension_just_before_expiry_applies_or_is_refused(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        for number in 0..10 {
            for then in OnExpiry::ALL {
                let id = fixture.session(&format!("{then}-{number}")).await;
                fixture
                    .host
                    .set_expiry(&id, Some(Timestamp::now()), then)
                    .await
                    .unwrap();
                match fixture.host.set_expiry(&id, Some(far()), None).await {
                    // After a successful extension the session is active, whatever the janitor did.
                    Ok(session) if session.state == SessionState::Active => {
                        // The janitor may be on its way in. It looks again when it is alone inside,
                        // and leaves.
                        let turned_away =
                            |error: &Error| error.code() == ErrorCode::SessionDestroying;
                        loop {
                            match fixture.host.set_expiry(&id, Some(far()), None).await {
                                Err(error) if turned_away(&error) => tokio::task::yield_now().await,
                                outcome => break drop(outcome.unwrap()),
                            }
                        }
                        assert_eq!(
                            state(fixture, &id).await,
                            Some(SessionState::Active),
                            "{then}"
                        );
                    }
                    Ok(session) => {
                        assert_eq!(session.state, SessionState::Paused);
                        assert_ne!(then, OnExpiry::Destroy);
                    }
                    Err(error) => assert!(
                        matches!(
                            error.code(),
                            ErrorCode::SessionNotFound | ErrorCode::SessionDestroying
                        ),
                        "{}",
                        error.chain()
                    ),
                }
            }
        }
    })
}
