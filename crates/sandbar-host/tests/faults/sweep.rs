//! Injects every kind of fault into every call of an operation, one at a time. Afterwards the
//! operation is complete or undone, other sessions work, and it can be repeated.

use std::collections::BTreeSet;

use sandbar_core::{
    ErrorCode, PageRequest, Quiesce, Result, RuntimeKind, SessionFilter, SessionId, SessionState,
    SnapshotName,
};
use sandbar_testing::Backend;
use tokio::task::JoinHandle;

use crate::{
    fixture::{FaultyHost, settled, snap, with_faults},
    operation::{Operation, Seen, Subject, observe},
    switchboard::{Fault, Place},
};

/// A fault in a call, and whether the caller waits for the outcome.
#[derive(Clone, Copy, Debug)]
struct Mishap {
    place: Place,
    fault: Fault,
    caller_goes_away: bool,
}

const NEIGHBOUR: &str = "neighbour";

/// Sweeps over the calls of an operation whose names `concerns` accepts.
pub(crate) fn sweep(
    backend: Backend,
    runtime: RuntimeKind,
    operation: Operation,
    concerns: fn(&str) -> bool,
) {
    with_faults(backend, runtime, async |faulty| {
        let neighbour = faulty.create(NEIGHBOUR).await;
        faulty.write(&neighbour, "quiet").await.unwrap();
        faulty
            .host()
            .create_snapshot(&neighbour, Some(snap("quiet")), Quiesce::WhereNeeded)
            .await
            .unwrap();
        let (calls, before, after) = undisturbed(faulty, operation).await;
        let mut number = 0;
        for mishap in mishaps(&calls)
            .into_iter()
            .filter(|mishap| concerns(mishap.place.0))
        {
            number += 1;
            let subject = operation.prepare(faulty, &format!("s-{number}")).await;
            Round {
                operation,
                mishap,
                before: &before,
                after: &after,
            }
            .run(faulty, subject)
            .await;
        }
        assert!(
            number > 0 || !concerns("everything"),
            "{operation:?} made no call"
        );
    });
}

/// Calls and effects of the operation without faults.
async fn undisturbed(faulty: &FaultyHost, operation: Operation) -> (Vec<&'static str>, Seen, Seen) {
    let subject = operation.prepare(faulty, "undisturbed").await;
    let before = observe(faulty, &subject).await.unwrap();
    let calls = if operation.ends_with_its_caller() {
        // The inspection has mounted the tree; the calls are recorded on a session without a mount.
        let fresh = operation.prepare(faulty, "recorded").await;
        record(faulty, operation, &fresh).await
    } else {
        Vec::new()
    };
    let made = record(faulty, operation, &subject).await;
    let after = observe(faulty, &subject).await.unwrap();
    (if calls.is_empty() { made } else { calls }, before, after)
}

async fn record(faulty: &FaultyHost, operation: Operation, subject: &Subject) -> Vec<&'static str> {
    faulty.faults.listen();
    operation
        .perform(faulty.host().clone(), subject.clone())
        .await
        .unwrap();
    faulty.faults.calls()
}

/// Everything that can go wrong with these calls.
fn mishaps(calls: &[&'static str]) -> Vec<Mishap> {
    let mut mishaps = Vec::new();
    for (position, name) in calls.iter().enumerate() {
        let place = (
            *name,
            calls[..position]
                .iter()
                .filter(|earlier| *earlier == name)
                .count(),
        );
        let faults: &[Fault] = match *name {
            "sandbox is_alive" => &[Fault::Wrong],
            "usage" | "sandbox freeze" => &[Fault::Before, Fault::After, Fault::Wrong],
            _ => &[Fault::Before, Fault::After],
        };
        mishaps.extend(faults.iter().map(|fault| Mishap {
            place,
            fault: *fault,
            caller_goes_away: false,
        }));
        for caller_goes_away in [false, true] {
            mishaps.push(Mishap {
                place,
                fault: Fault::Hang,
                caller_goes_away,
            });
        }
    }
    mishaps
}

/// One operation with one mishap.
struct Round<'a> {
    operation: Operation,
    mishap: Mishap,
    before: &'a Seen,
    after: &'a Seen,
}

impl Round<'_> {
    async fn run(&self, faulty: &mut FaultyHost, subject: Subject) {
        faulty.faults.arm(&[(self.mishap.place, self.mishap.fault)]);
        let attempt = tokio::spawn(
            self.operation
                .perform(faulty.host().clone(), subject.clone()),
        );
        let outcome = match self.mishap.fault {
            Fault::Hang => self.hang(faulty, &subject, attempt).await,
            _ => Some(attempt.await.unwrap()),
        };
        faulty.faults.listen();

        let seen = settled(async || self.judge(faulty, &subject, outcome.as_ref()).await).await;
        // Whatever became of it, nothing in the session is left frozen or dead.
        self.check_use(faulty, &subject).await;
        if seen == *self.before && seen != *self.after {
            let again = self
                .operation
                .perform(faulty.host().clone(), subject.clone())
                .await;
            again.unwrap_or_else(|error| panic!("{self}: again: {}", error.chain()));
            let seen = settled(async || self.judge(faulty, &subject, None).await).await;
            assert_eq!(seen, *self.after, "{self}: done again");
        }
        self.check_other_session(faulty).await;
        faulty.restart().await;
        let seen = settled(async || self.judge(faulty, &subject, None).await).await;
        assert_eq!(seen, *self.after, "{self}: after a restart");
        self.check_other_session(faulty).await;
        self.check_use_and_destroy(faulty, &subject).await;
    }

    /// The call hangs while other sessions work. Then it continues, with or without a waiting
    /// caller.
    async fn hang(
        &self,
        faulty: &FaultyHost,
        subject: &Subject,
        attempt: JoinHandle<Result<()>>,
    ) -> Option<Result<()>> {
        settled(async || {
            let met = faulty.faults.hangs() || attempt.is_finished();
            met.then_some(())
                .ok_or_else(|| format!("{self}: it neither hangs nor ends"))
        })
        .await;
        // The others are not to meet a fault that was not met.
        faulty.faults.disarm();
        let other = faulty.create("other").await;
        faulty.shell(&other, "true").await.unwrap();
        let known = faulty.host().get_session(&subject.id).await;
        let may_be_absent = matches!(
            self.operation,
            Operation::Create | Operation::CreateFromSaved | Operation::Destroy
        );
        assert!(known.is_ok() || may_be_absent, "{self}: {known:?}");
        faulty
            .host()
            .list_sessions(&SessionFilter::default(), &PageRequest::default())
            .await
            .unwrap();
        faulty.host().destroy_session(&other).await.unwrap();
        if self.mishap.caller_goes_away {
            attempt.abort();
        }
        faulty.faults.release();
        let outcome = attempt.await;
        settled(async || {
            (!faulty.faults.hangs())
                .then_some(())
                .ok_or_else(|| format!("{self}: it still hangs"))
        })
        .await;
        if self.mishap.caller_goes_away {
            None
        } else {
            Some(outcome.unwrap())
        }
    }

    /// Whether everything is as it may be; what there is, or what is not right yet.
    async fn judge(
        &self,
        faulty: &FaultyHost,
        subject: &Subject,
        outcome: Option<&Result<()>>,
    ) -> std::result::Result<Seen, String> {
        let seen = observe(faulty, subject)
            .await
            .map_err(|complaint| format!("{self}: {complaint}"))?;
        assert_ne!(
            seen.state,
            Some(SessionState::Failed),
            "{self}: {outcome:?}"
        );
        let must_be_done = match outcome {
            Some(outcome) => outcome.is_ok(),
            // The call was dropped, but the operation runs to its end.
            None => self.mishap.caller_goes_away && !self.operation.ends_with_its_caller(),
        };
        if seen != *self.after && (must_be_done || seen != *self.before) {
            return Err(format!(
                "{self}: {outcome:?}: {seen:?}, not {:?} nor {:?}",
                self.before, self.after
            ));
        }
        agreement(faulty)
            .await
            .map_err(|complaint| format!("{self}: {outcome:?}: {complaint}"))?;
        Ok(seen)
    }

    async fn check_other_session(&self, faulty: &FaultyHost) {
        let id: SessionId = NEIGHBOUR.parse().unwrap();
        let info = faulty.host().get_session(&id).await.unwrap();
        assert_eq!(
            (info.state, info.snapshot_count),
            (SessionState::Active, 1),
            "{self}"
        );
        assert_eq!(faulty.read(&id).await, Ok(Some("quiet".into())), "{self}");
    }

    /// Sessions that are active run commands.
    async fn check_use(&self, faulty: &FaultyHost, subject: &Subject) {
        for id in subject.forks.iter().chain([&subject.id]) {
            let state = faulty
                .host()
                .get_session(id)
                .await
                .ok()
                .map(|info| info.state);
            if state == Some(SessionState::Active) {
                faulty
                    .shell(id, "true")
                    .await
                    .unwrap_or_else(|error| panic!("{self}: {}", error.chain()));
            }
        }
    }

    /// Everything there is can be used, and goes away without a trace.
    async fn check_use_and_destroy(&self, faulty: &FaultyHost, subject: &Subject) {
        for id in subject.forks.iter().chain([&subject.id]) {
            let info = match faulty.host().get_session(id).await {
                Ok(info) => info,
                Err(error) if error.code() == ErrorCode::SessionNotFound => continue,
                Err(error) => panic!("{self}: {}", error.chain()),
            };
            if info.state == SessionState::Paused {
                faulty.host().resume_session(id).await.unwrap();
            }
            faulty
                .shell(id, "true")
                .await
                .unwrap_or_else(|error| panic!("{self}: {}", error.chain()));
            faulty.host().destroy_session(id).await.unwrap();
        }
        if let Err(error) = faulty.host().delete_base(&subject.base()).await {
            assert_eq!(
                error.code(),
                ErrorCode::BaseNotFound,
                "{self}: {}",
                error.chain()
            );
        }
        agreement(faulty)
            .await
            .unwrap_or_else(|complaint| panic!("{self}: {complaint}"));
    }
}

impl std::fmt::Display for Round<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mishap {
            place: (name, earlier),
            fault,
            caller_goes_away,
        } = self.mishap;
        write!(
            f,
            "{:?} with {fault:?} in `{name}` after {earlier} of them",
            self.operation
        )?;
        if caller_goes_away {
            f.write_str(", without a caller")
        } else {
            Ok(())
        }
    }
}

/// Records and storage say the same, and nothing is half done.
pub(crate) async fn agreement(faulty: &FaultyHost) -> std::result::Result<(), String> {
    let storage = faulty.real();
    let page = PageRequest {
        size: PageRequest::MAX_SIZE,
        token: None,
    };
    let sessions = faulty
        .host()
        .list_sessions(&SessionFilter::default(), &page)
        .await
        .unwrap()
        .items;
    let known: BTreeSet<SessionId> = sessions.iter().map(|session| session.id.clone()).collect();
    let volumes: BTreeSet<SessionId> = storage.volumes().unwrap().into_iter().collect();
    if let Some(session) = sessions
        .iter()
        .find(|session| session.state == SessionState::Destroying)
    {
        return Err(format!("{} is still being destroyed", session.id));
    }
    // Each saved base is kept as a volume no session has.
    let saved = faulty.host().saved_bases().await.unwrap().len();
    if !known.is_subset(&volumes) || volumes.len() != known.len() + saved {
        return Err(format!(
            "sessions {known:?} and {saved} saved bases, volumes {volumes:?}"
        ));
    }
    for session in sessions {
        let names = |of: Vec<SnapshotName>| {
            of.into_iter()
                .map(|name| name.to_string())
                .collect::<BTreeSet<_>>()
        };
        let stored = storage
            .snapshots(&session.id)
            .map_err(|error| error.chain())?
            .into_iter()
            .map(|snapshot| snapshot.name)
            .collect();
        let recorded = faulty
            .host()
            .list_snapshots(&session.id)
            .await
            .map_err(|error| error.chain())?;
        let recorded = recorded.into_iter().map(|snapshot| snapshot.name).collect();
        let (stored, recorded) = (names(stored), names(recorded));
        if stored != recorded {
            return Err(format!(
                "{}: snapshots {recorded:?}, stored {stored:?}",
                session.id
            ));
        }
    }
    match faulty.intents() {
        0 => Ok(()),
        left => Err(format!("{left} intents are left")),
    }
}
