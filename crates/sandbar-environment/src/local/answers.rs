//! The answers of calls that were done, for callers who ask again.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use sandbar_core::{ToolCallId, ToolResponse};

/// As many as a host keeps of a session.
const MOST: usize = 1000;

/// Bytes of text that are kept in all.
const MOST_TEXT: usize = 32 << 20;

/// The last answers of a session.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    answers: HashMap<ToolCallId, ToolResponse>,
    /// Oldest first.
    order: VecDeque<ToolCallId>,
    text: usize,
}

impl Answers {
    pub(super) fn get(&self, call: &ToolCallId) -> Option<ToolResponse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).answers.get(call).cloned()
    }

    pub(super) fn keep(&self, call: &ToolCallId, response: &ToolResponse) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.text += response.content.len();
        kept.answers.insert(call.clone(), response.clone());
        kept.order.push_back(call.clone());
        while kept.order.len() > MOST || (kept.text > MOST_TEXT && kept.order.len() > 1) {
            let Some(oldest) = kept.order.pop_front() else { break };
            if let Some(answer) = kept.answers.remove(&oldest) {
                kept.text -= answer.content.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbar_core::ToolTier;

    use super::*;

    fn answer(text: &str) -> ToolResponse {
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
    fn the_oldest_answers_make_room_for_new_ones() {
        let answers = Answers::default();
        for number in 0..=MOST {
            answers.keep(&id(number), &answer("x"));
        }
        assert_eq!(answers.get(&id(0)), None);
        assert_eq!(answers.get(&id(1)), Some(answer("x")));
        let long = answer(&"x".repeat(MOST_TEXT));
        answers.keep(&id(5000), &long);
        assert_eq!(answers.get(&id(MOST)), None);
        assert_eq!(answers.get(&id(5000)), Some(long));
    }
}
