//! Long lists as a stream of messages.

use connectrpc::{ConnectError, ServiceStream};
use futures::stream;

/// Entries of one message. Two names of 4 KiB each still leave it far below the message limit.
const BATCH: usize = 512;

/// The items in batches, each made when the caller is ready to take it.
pub(crate) fn batches<T, M>(items: Vec<T>, message: impl Fn(Vec<T>) -> M + Send + 'static) -> ServiceStream<M>
where
    T: Send + 'static,
    M: Send + 'static,
{
    let mut items = items.into_iter();
    let batches = std::iter::from_fn(move || {
        let batch: Vec<T> = items.by_ref().take(BATCH).collect();
        if batch.is_empty() { None } else { Some(Ok::<_, ConnectError>(message(batch))) }
    });
    Box::pin(stream::iter(batches))
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::*;

    #[tokio::test]
    async fn every_item_comes_once_and_in_order() {
        for count in [0, 1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH] {
            let sent: Vec<usize> = (0..count).collect();
            let received: Vec<Vec<usize>> = batches(sent.clone(), |batch| batch).try_collect().await.unwrap();
            assert!(received.iter().all(|batch| !batch.is_empty() && batch.len() <= BATCH));
            assert_eq!(received.concat(), sent);
        }
    }
}
