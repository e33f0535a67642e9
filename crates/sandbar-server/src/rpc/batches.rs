//! Batching of long lists into stream messages.

use connectrpc::{ConnectError, ServiceStream};
use futures::stream;

/// Entries per message. With two paths of 4 KiB each, a message stays far below the size limit.
const BATCH_SIZE: usize = 512;

/// Returns the items in batches, each built when the caller is ready to read it.
pub(crate) fn batches<T, M>(
    items: Vec<T>,
    message: impl Fn(Vec<T>) -> M + Send + 'static,
) -> ServiceStream<M>
where
    T: Send + 'static,
    M: Send + 'static,
{
    let mut items = items.into_iter();
    let batches = std::iter::from_fn(move || {
        let batch: Vec<T> = items.by_ref().take(BATCH_SIZE).collect();
        if batch.is_empty() {
            None
        } else {
            Some(Ok::<_, ConnectError>(message(batch)))
        }
    });
    Box::pin(stream::iter(batches))
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::*;

    #[tokio::test]
    async fn batches_keep_every_item_in_order() {
        for count in [
            0,
            1,
            BATCH_SIZE - 1,
            BATCH_SIZE,
            BATCH_SIZE + 1,
            3 * BATCH_SIZE,
        ] {
            let sent: Vec<usize> = (0..count).collect();
            let received: Vec<Vec<usize>> = batches(sent.clone(), |batch| batch)
                .try_collect()
                .await
                .unwrap();
            assert!(
                received
                    .iter()
                    .all(|batch| !batch.is_empty() && batch.len() <= BATCH_SIZE)
            );
            assert_eq!(received.concat(), sent);
        }
    }
}
