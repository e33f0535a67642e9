//! [`Orders`]: requests to the supervisor of a process.

use sandbar_core::{Result, TerminalSize};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

const QUEUE_LENGTH: usize = 4;

/// A request to a supervisor, with the channel for its outcome.
#[derive(Debug)]
pub(crate) enum Order {
    Signal {
        signal: i32,
        done: oneshot::Sender<Result<()>>,
    },
    Resize {
        size: TerminalSize,
        done: oneshot::Sender<Result<()>>,
    },
}

/// Sends orders to one supervisor.
#[derive(Debug)]
pub(crate) struct Orders(mpsc::Sender<Order>);

impl Orders {
    pub(super) fn new() -> (Self, mpsc::Receiver<Order>) {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        (Self(sender), receiver)
    }

    /// Sends an order and waits for its outcome; blocks the thread. `None`: the supervisor has
    /// ended.
    pub(crate) fn send(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<()>>) -> Order,
    ) -> Option<Result<()>> {
        let (done, mut outcome) = oneshot::channel();
        Handle::current().block_on(async {
            self.0.send(order(done)).await.ok()?;
            tokio::select! {
                biased;
                outcome = &mut outcome => outcome.ok(),
                // A message that is sent while the receiver is dropped stays in the channel as long
                // as there is a sender, and `done` with it: `outcome` alone would never be ready.
                () = self.0.closed() => outcome.try_recv().ok(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        hint::spin_loop,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

    use super::*;

    /// Without `closed` above, about one round in a few hundred never ends.
    const ROUNDS: u32 = 20_000;

    /// Releases two threads within nanoseconds; a lock would be slower.
    fn meet(arrived: &AtomicU32) {
        arrived.fetch_add(1, Ordering::SeqCst);
        while arrived.load(Ordering::SeqCst) < 2 {
            spin_loop();
        }
    }

    #[test]
    fn an_order_sent_while_the_task_ends_comes_back() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        for round in 0..ROUNDS {
            let (orders, receiver) = Orders::new();
            let arrived = Arc::new(AtomicU32::new(0));
            let kept = orders.0.clone();
            let sending = runtime.spawn_blocking({
                let arrived = Arc::clone(&arrived);
                move || {
                    meet(&arrived);
                    orders.send(|done| Order::Signal { signal: 9, done })
                }
            });
            meet(&arrived);
            for _ in 0..round % 400 {
                spin_loop();
            }
            drop(receiver);
            let sent = runtime
                .block_on(async { tokio::time::timeout(Duration::from_secs(30), sending).await });
            assert!(
                sent.expect("the order came back").unwrap().is_none(),
                "nothing carried it out"
            );
            // As the table of processes keeps it.
            drop(kept);
        }
    }

    #[test]
    fn an_order_is_answered_with_its_outcome() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let (orders, mut receiver) = Orders::new();
        let sending =
            runtime.spawn_blocking(move || orders.send(|done| Order::Signal { signal: 9, done }));
        let Some(Order::Signal { done, .. }) = runtime.block_on(receiver.recv()) else {
            panic!("no signal came")
        };
        done.send(Ok(())).unwrap();
        drop(receiver);
        assert!(
            runtime
                .block_on(sending)
                .unwrap()
                .is_some_and(|outcome| outcome.is_ok())
        );
    }
}
