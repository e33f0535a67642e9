//! State of one run: its threads, lock owners and the running thread.

use std::{
    collections::HashMap,
    fmt::Write,
    panic::Location,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    crew::Crew,
    current::Current,
    explorer::{Choice, ChoiceKind, Explorer, ThreadId},
    pending::{Address, Pending, Step},
    schedule::Schedule,
};

/// Step limit of a run. A run that exceeds it counts as one that never ends.
const MAX_STEPS: usize = 20_000;

/// One run of the code under test.
pub(crate) struct Run {
    state: Mutex<State>,
}

/// Result of a run, with the explorer and thread pool for the next one.
pub(crate) struct Ended {
    pub(crate) explorer: Box<dyn Explorer>,
    pub(crate) crew: Crew,
    pub(crate) failure: Option<String>,
    pub(crate) schedule: Schedule,
    pub(crate) steps: Vec<Step>,
}

pub(crate) struct State {
    pub(crate) threads: Vec<Thread>,
    /// The only thread that runs; the others are parked.
    pub(crate) running: ThreadId,
    /// The running thread has just returned from `join`, so switching away is no preemption.
    joined: bool,
    /// The holder of each locked lock.
    owners: HashMap<Address, ThreadId>,
    /// Virtual time since the start of the run.
    pub(crate) clock: Duration,
    /// Taken out when the run is over.
    explorer: Option<Box<dyn Explorer>>,
    schedule: Schedule,
    steps: Vec<Step>,
    /// Description of the failure. Once it is set, every thread unwinds.
    failure: Option<String>,
    pub(crate) crew: Crew,
}

pub(crate) struct Thread {
    pub(crate) pending: Pending,
    at: &'static Location<'static>,
    /// Body of the thread, until it is picked for the first time.
    pub(crate) body: Option<Box<dyn FnOnce() + Send>>,
    /// Worker that executes the body, from then on; parked while another thread runs.
    pub(crate) handle: Option<std::thread::Thread>,
    /// The thread has not yet done a step that is visible to other threads.
    fresh: bool,
    /// Its last wait timed out.
    pub(crate) timed_out: bool,
}

/// Runs `body` and all threads it starts, to the end of the last of them.
pub(crate) fn execute(explorer: Box<dyn Explorer>, crew: Crew, body: &dyn Fn()) -> Ended {
    let run = Arc::new(Run {
        state: Mutex::new(State::new(explorer, crew)),
    });
    let main = run.lock().add_thread(Location::caller());
    run.lock().threads[main].handle = Some(std::thread::current());
    Current::new(Arc::clone(&run), 0).run_to_the_end(body);
    // A running thread may start more workers, so this loops until no worker is busy.
    loop {
        let Some(worker) = run.lock().crew.take_busy() else {
            break;
        };
        worker.wait();
        run.lock().crew.take_back(worker);
    }
    // Threads of a failed run may not have started. Dropping their bodies runs destructors of the
    // code under test, so it happens without holding the run's lock.
    let threads = std::mem::take(&mut run.lock().threads);
    drop(threads);
    run.lock().end()
}

impl Run {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(explorer: Box<dyn Explorer>, crew: Crew) -> Self {
        Self {
            threads: Vec::new(),
            running: 0,
            joined: false,
            owners: HashMap::new(),
            clock: Duration::ZERO,
            explorer: Some(explorer),
            schedule: Schedule::default(),
            steps: Vec::new(),
            failure: None,
            crew,
        }
    }

    fn end(&mut self) -> Ended {
        let Some(explorer) = self.explorer.take() else {
            unreachable!("a run ends once")
        };
        Ended {
            explorer,
            crew: std::mem::take(&mut self.crew),
            failure: self.failure.take(),
            schedule: std::mem::take(&mut self.schedule),
            steps: std::mem::take(&mut self.steps),
        }
    }

    fn add_thread(&mut self, at: &'static Location<'static>) -> ThreadId {
        let pending = Pending::Step("starts");
        self.threads.push(Thread {
            pending,
            at,
            body: None,
            handle: None,
            fresh: true,
            timed_out: false,
        });
        self.threads.len() - 1
    }

    pub(crate) fn spawn(
        &mut self,
        parent: ThreadId,
        body: Box<dyn FnOnce() + Send>,
        at: &'static Location<'static>,
    ) -> ThreadId {
        // From now on another thread could run instead of the parent.
        self.threads[parent].fresh = false;
        let id = self.add_thread(at);
        self.threads[id].body = Some(body);
        id
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Marks the run as failed, so that all its threads unwind. The first failure is kept.
    pub(crate) fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }

    /// Records the next operation of a thread, and decides which thread runs next.
    pub(crate) fn announce(
        &mut self,
        id: ThreadId,
        pending: Pending,
        at: &'static Location<'static>,
    ) {
        let thread = &mut self.threads[id];
        (thread.pending, thread.at) = (pending, at);
        // Work before the first step is invisible to other threads, so picking a thread includes
        // its first step, unless that step blocks.
        let first = std::mem::take(&mut thread.fresh);
        if first && pending != Pending::Done && self.can_go_on(id) {
            self.go_on(id);
        } else {
            self.decide();
        }
    }

    /// Decides which thread runs next.
    fn decide(&mut self) {
        while !self.has_failed() {
            // Returning from `join` is invisible to other threads, so it needs no decision; the
            // next step of the joining thread does.
            if let Some(joining) = (0..self.threads.len()).find(|&id| self.can_join(id)) {
                self.joined = true;
                return self.go_on(joining);
            }
            let choices = self.choices();
            self.joined = false;
            if choices.is_empty() {
                if self
                    .threads
                    .iter()
                    .any(|thread| thread.pending != Pending::Done)
                {
                    let what = self.describe_deadlock();
                    self.fail(what);
                }
                return;
            }
            let Some(choice) = self.choose(&choices) else {
                return;
            };
            if choice.kind == ChoiceKind::TimeOut {
                self.time_out(choice.thread);
            } else {
                return self.go_on(choice.thread);
            }
        }
    }

    fn choose(&mut self, choices: &[Choice]) -> Option<Choice> {
        if let [only] = choices {
            return Some(*only);
        }
        match self.explorer.as_mut()?.choose(choices) {
            Ok(place) => {
                self.schedule.0.push(choices[place].thread);
                Some(choices[place])
            }
            Err(what) => {
                self.fail(what);
                None
            }
        }
    }

    /// Returns the possible next events: the running thread continues, another thread runs, or a
    /// wait times out. A yielding thread is only a choice when no other thread is runnable and no
    /// wait can time out, and the running one only when it alone yields.
    fn choices(&self) -> Vec<Choice> {
        let (yielding, mut runnable): (Vec<ThreadId>, Vec<ThreadId>) = (0..self.threads.len())
            .filter(|&id| self.can_go_on(id))
            .partition(|&id| self.threads[id].pending == Pending::Yield);
        let timed: Vec<ThreadId> = (0..self.threads.len())
            .filter(|&id| {
                matches!(
                    self.threads[id].pending,
                    Pending::Notification {
                        deadline: Some(_),
                        ..
                    }
                )
            })
            .collect();
        if runnable.is_empty() && timed.is_empty() {
            runnable = yielding;
            if runnable.len() > 1 {
                runnable.retain(|&id| id != self.running);
            }
        }
        let goes_on = !self.joined && runnable.contains(&self.running);
        let any_runnable = !runnable.is_empty();
        runnable.sort_by_key(|&id| (id != self.running, id));
        let run = |thread| Choice {
            thread,
            kind: ChoiceKind::Run,
            preempts: goes_on && thread != self.running,
        };
        let time_out = |thread| Choice {
            thread,
            kind: ChoiceKind::TimeOut,
            preempts: any_runnable,
        };
        runnable
            .into_iter()
            .map(run)
            .chain(timed.into_iter().map(time_out))
            .collect()
    }

    fn can_join(&self, id: ThreadId) -> bool {
        matches!(self.threads[id].pending, Pending::Join(_)) && self.can_go_on(id)
    }

    fn can_go_on(&self, id: ThreadId) -> bool {
        match self.threads[id].pending {
            Pending::Step(_) | Pending::Yield => true,
            Pending::Lock(lock) => !self.owners.contains_key(&lock),
            Pending::Join(other) => self.threads[other].pending == Pending::Done,
            Pending::Notification { .. } | Pending::Done => false,
        }
    }

    fn go_on(&mut self, id: ThreadId) {
        self.note_step(id, false);
        if let Pending::Lock(lock) = self.threads[id].pending {
            self.owners.insert(lock, id);
        }
        self.running = id;
    }

    fn time_out(&mut self, id: ThreadId) {
        self.note_step(id, true);
        let thread = &mut self.threads[id];
        if let Pending::Notification {
            lock,
            deadline: Some(deadline),
            ..
        } = thread.pending
        {
            thread.pending = Pending::Lock(lock);
            thread.timed_out = true;
            self.clock = self.clock.max(deadline);
        }
    }

    fn note_step(&mut self, id: ThreadId, timed_out: bool) {
        let Thread { pending, at, .. } = &self.threads[id];
        self.steps.push(Step {
            thread: id,
            what: *pending,
            timed_out,
            at,
        });
        if self.steps.len() > MAX_STEPS {
            self.fail(format!("the run did not end within {MAX_STEPS} steps"));
        }
    }

    pub(crate) fn release(&mut self, lock: Address) {
        self.owners.remove(&lock);
    }

    pub(crate) fn notify_all(&mut self, condition: Address) {
        for id in self.waiters(condition) {
            self.notify(id);
        }
    }

    /// Notifies one of the waiting threads; the explorer decides which one.
    pub(crate) fn notify_one(&mut self, condition: Address) {
        let choices: Vec<Choice> = self
            .waiters(condition)
            .into_iter()
            .map(|thread| Choice {
                thread,
                kind: ChoiceKind::Wake,
                preempts: false,
            })
            .collect();
        if !choices.is_empty()
            && let Some(choice) = self.choose(&choices)
        {
            self.notify(choice.thread);
        }
    }

    fn waiters(&self, sought: Address) -> Vec<ThreadId> {
        let waits = |thread: &Thread| matches!(thread.pending, Pending::Notification { condition, .. } if condition == sought);
        (0..self.threads.len())
            .filter(|&id| waits(&self.threads[id]))
            .collect()
    }

    fn notify(&mut self, id: ThreadId) {
        let thread = &mut self.threads[id];
        if let Pending::Notification { lock, .. } = thread.pending {
            thread.pending = Pending::Lock(lock);
        }
    }

    fn describe_deadlock(&self) -> String {
        let mut what = "deadlock, no thread can run:".to_owned();
        for (id, thread) in self.threads.iter().enumerate() {
            let waits = match thread.pending {
                Pending::Done => continue,
                Pending::Lock(lock) => match self.owners.get(&lock) {
                    Some(owner) => format!("waits for a lock that thread {owner} holds"),
                    None => thread.pending.describe(),
                },
                pending => pending.describe(),
            };
            // Writing to a string does not fail.
            let _ = write!(what, "\n  thread {id} {waits}, at {}", thread.at);
        }
        what
    }
}
