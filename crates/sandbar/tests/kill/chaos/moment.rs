//! When a host is killed.

use std::time::{Duration, Instant};

use super::packs::whole_packs;
use crate::{dice::Dice, world::World};

/// The latest a kill comes after the load has begun, in milliseconds: in the middle of the first thing everybody does, or
/// when they have done some. The rounds take turns, and every third kill comes when a session has just been packed.
const LATEST_KILL: [usize; 2] = [150, 600];
/// The latest a kill comes after the first of many sessions was packed, in milliseconds: while packs become sessions.
const LATEST_AFTER_PACK: usize = 100;
/// How long a kill waits for a session to be packed.
const WAIT_FOR_PACK: Duration = Duration::from_millis(1500);

/// When, counted from when the load began.
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

    /// Whether it comes when a session has just been packed; everybody packs one then.
    pub(super) fn is_after_pack(&self) -> bool {
        matches!(self, Self::AfterPack(_))
    }

    /// Waits for it.
    pub(super) async fn come(self, world: &World) {
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
