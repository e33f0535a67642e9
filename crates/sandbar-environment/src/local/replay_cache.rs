//! Results of finished tool calls, returned when a call is repeated under its id.

use std::{
    collections::{HashMap, VecDeque},
    sync::Mutex,
};

use sandbar_core::{MutexExt as _, ToolCallId, ToolResponse};

/// Limit on results; a host has the same for a session.
const MAX_RESULTS: usize = 1000;

/// Limit on the text of all results, in bytes.
const MAX_TEXT_BYTES: usize = 32 << 20;

/// The last results of a session.
#[derive(Debug, Default)]
pub(super) struct ReplayCache(Mutex<Results>);

#[derive(Debug, Default)]
struct Results {
    by_call: HashMap<ToolCallId, ToolResponse>,
    /// Oldest first.
    order: VecDeque<ToolCallId>,
    text: usize,
}

impl ReplayCache {
    pub(super) fn get(&self, call: &ToolCallId) -> Option<ToolResponse> {
        self.0.lock_unpoisoned().by_call.get(call).cloned()
    }

    pub(super) fn put(&self, call: &ToolCallId, response: &ToolResponse) {
        let mut kept = self.0.lock_unpoisoned();
        kept.text += response.content.len();
        kept.by_call.insert(call.clone(), response.clone());
        kept.order.push_back(call.clone());
        while kept.order.len() > MAX_RESULTS || (kept.text > MAX_TEXT_BYTES && kept.order.len() > 1)
        {
            let Some(oldest) = kept.order.pop_front() else {
                break;
            };
            if let Some(result) = kept.by_call.remove(&oldest) {
                kept.text -= result.content.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbar_core::ToolTier;

    use super::*;

    fn result(text: &str) -> ToolResponse {
        ToolResponse {
            content: text.to_owned(),
            content_blocks: Vec::new(),
            exit_code: None,
            snapshot_id: None,
            duration: Duration::ZERO,
            tier: ToolTier::Host,
            is_error: false,
            timed_out: false,
            oom_killed: false,
            truncated: false,
        }
    }

    fn id(number: usize) -> ToolCallId {
        ToolCallId::new(format!("call-{number}")).unwrap()
    }

    #[test]
    fn oldest_results_are_evicted() {
        let cache = ReplayCache::default();
        for number in 0..=MAX_RESULTS {
            cache.put(&id(number), &result("x"));
        }
        assert_eq!(cache.get(&id(0)), None);
        assert_eq!(cache.get(&id(1)), Some(result("x")));
        let long = result(&"x".repeat(MAX_TEXT_BYTES));
        cache.put(&id(5000), &long);
        assert_eq!(cache.get(&id(MAX_RESULTS)), None);
        assert_eq!(cache.get(&id(5000)), Some(long));
    }
}
