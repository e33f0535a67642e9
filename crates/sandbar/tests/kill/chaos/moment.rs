//! Moments at which the host is killed.

use std::time::{Duration, Instant};

use super::packs::whole_packs;
use crate::{dice::Dice, world::World};

/// Maximum delays of a kill after the load began, in milliseconds: during the first operations, or
/// after some. The rounds alternate, and every third kill follows the packing of a session.
const LATEST_KILL: [usize; 2] = [150, 600];
/// Maximum delay of a kill after the first of many sessions was packed, in milliseconds.
const LATEST_AFTER_PACK: usize = 100;
/// Time that a kill waits for a session to be packed.
const WAIT_FOR_PACK: Duration = Duration::from_millis(1500);

/// Moment relative to the start of the load.
pub(super) enum Moment {
    After(Duration),
    AfterPack(Duration),
}

impl Moment {
    pub(super) fn choose(dice: &mut Dice, round: usize) -> Self {
        let mut up_to = |latest| Duration::from_millis(dice.below(latest).try_into().unwrap());
        match LATEST_KILL.get(round % (LATEST_KILL.len() + 1)) {
            Some(latest) => Self::After(up_to(*latest)),
            None => Self::AfterPack(up_to(LATEST_AFTER_PACK)),
        }
    }

    /// Returns whether it follows the packing of a session; then every client hibernates one.
    pub(super) fn is_after_pack(&self) -> bool {
        matches!(self, Self::AfterPack(_))
    }

    /// Waits for the moment.
    pub(super) async fn wait(self, world: &World) {
        let delay = match self {
            Self::After(delay) => delay,
            Self::AfterPack(delay) => {
                let (before, began) = (whole_packs(world), Instant::now());
                while whole_packs(world).is_subset(&before) && began.elapsed() < WAIT_FOR_PACK {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                delay
            }
        };
        tokio::time::sleep(delay).await;
    }
}
