//! Pool of threads reused by consecutive runs, since starting a thread takes longer than most runs.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread::{Builder, JoinHandle, Thread},
};

type Job = Box<dyn FnOnce() + Send>;

/// Thread pool of one exploration. Dropping it joins the idle threads.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    idle: Vec<Worker>,
    busy: Vec<Worker>,
}

#[derive(Debug)]
pub(crate) struct Worker {
    jobs: Sender<Job>,
    done: Receiver<()>,
    handle: JoinHandle<()>,
}

impl Crew {
    /// Gives the job to an idle or new worker, and returns the worker's thread.
    pub(crate) fn employ(&mut self, job: Job) -> Thread {
        let worker = self.idle.pop().unwrap_or_else(Worker::hire);
        let thread = worker.handle.thread().clone();
        if worker.jobs.send(job).is_err() {
            unreachable!("a worker waits for jobs for as long as there may be some");
        }
        self.busy.push(worker);
        thread
    }

    pub(crate) fn take_busy(&mut self) -> Option<Worker> {
        self.busy.pop()
    }

    pub(crate) fn take_back(&mut self, idle: Worker) {
        self.idle.push(idle);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for worker in self.idle.drain(..) {
            drop(worker.jobs);
            if worker.handle.join().is_err() {
                unreachable!("jobs keep their panics to themselves");
            }
        }
    }
}

impl Worker {
    fn hire() -> Self {
        let (jobs, waiting) = channel::<Job>();
        let (finished, done) = channel();
        let work = move || {
            for job in waiting {
                job();
                // Fails only when the pool has dropped the worker; then no run waits for it.
                let _ = finished.send(());
            }
        };
        match Builder::new()
            .name("a thread of a run".to_owned())
            .spawn(work)
        {
            Ok(handle) => Self { jobs, done, handle },
            Err(error) => panic!("cannot start a thread: {error}"),
        }
    }

    pub(crate) fn wait(&self) {
        if self.done.recv().is_err() {
            unreachable!("jobs keep their panics to themselves");
        }
    }
}
