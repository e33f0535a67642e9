//! The model. In a real agent this is a language model; here it follows a script and reacts to the
//! results.

use std::collections::VecDeque;

use sandbar_environment::ToolResponse;
use serde_json::{Value, json};

/// Next action of the model.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Say(&'static str),
    Call {
        tool: &'static str,
        params: Value,
    },
    /// End the turn and keep its changes.
    EndTurn,
    /// Roll back to the end of the last turn.
    Rollback,
    Finish(&'static str),
}

/// Result of an action, as the model sees it.
#[derive(Debug)]
pub(crate) enum Observation {
    Nothing,
    Result(ToolResponse),
    RollbackNotSupported,
}

/// Decides on the next action.
pub(crate) trait Model {
    /// Returns the next action after an observation.
    fn next(&mut self, seen: &Observation) -> Action;
}

/// A model with a list of attempts. When a tool fails, it rolls back and makes the next attempt.
#[derive(Debug)]
pub(crate) struct ScriptedModel {
    setup: Vec<Action>,
    attempts: VecDeque<Vec<Action>>,
    queue: VecDeque<Action>,
}

const CHECK: &str = "\
grep -qx Ada names.txt || { echo 'names.txt was overwritten'; exit 1; }
grep -qx 'Hello, Grace!' greetings.txt && echo 'all good'
";

impl ScriptedModel {
    /// Returns a model that greets every name in a file; its first attempt overwrites the file.
    pub(crate) fn new() -> Self {
        let write = |path: &str, content: &str| Action::Call {
            tool: "write_file",
            params: json!({ "path": path, "content": content }),
        };
        let bash = |command: &str| Action::Call {
            tool: "bash",
            params: json!({ "cmd": command }),
        };
        let setup = vec![write("names.txt", "Ada\nGrace\n"), write("check.sh", CHECK)];
        let mut queue = VecDeque::from(setup.clone());
        queue.push_front(Action::Say(
            "first the names, and a check that says when the work is done",
        ));
        queue.push_back(Action::EndTurn);
        let attempts = VecDeque::from([
            vec![
                Action::Say("the quickest way is to change the names where they are"),
                bash("sed -i 's/.*/Hello, &!/' names.txt && cp names.txt greetings.txt"),
                bash("sh check.sh"),
                Action::EndTurn,
                Action::Finish("greetings.txt greets everyone"),
            ],
            vec![
                Action::Say("this time the names stay as they are"),
                bash("sed 's/.*/Hello, &!/' names.txt > greetings.txt"),
                bash("sh check.sh"),
                Action::EndTurn,
                Action::Finish("greetings.txt greets everyone"),
            ],
        ]);
        Self {
            setup,
            attempts,
            queue,
        }
    }
}

impl Model for ScriptedModel {
    fn next(&mut self, seen: &Observation) -> Action {
        match seen {
            Observation::Result(result) if result.is_error => {
                self.queue = [
                    Action::Say("that went wrong: back to the end of the last turn"),
                    Action::Rollback,
                ]
                .into();
            }
            Observation::RollbackNotSupported => {
                self.queue = self.setup.clone().into();
                self.queue
                    .push_front(Action::Say("then I put things right by hand"));
            }
            Observation::Nothing | Observation::Result(_) => {}
        }
        if self.queue.is_empty() {
            self.queue = self.attempts.pop_front().unwrap_or_default().into();
        }
        self.queue
            .pop_front()
            .unwrap_or(Action::Finish("I do not know what else to try"))
    }
}
