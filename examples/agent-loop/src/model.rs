//! What decides. In a real agent this is a language model; here it follows a script and looks at what happens.

use std::collections::VecDeque;

use sandbar_environment::ToolResponse;
use serde_json::{Value, json};

/// What a model wants next.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Say(&'static str),
    Call {
        tool: &'static str,
        params: Value,
    },
    /// This went well: keep it.
    EndTurn,
    /// Back to the end of the last turn.
    GoBack,
    Finish(&'static str),
}

/// What a model sees after its action.
#[derive(Debug)]
pub(crate) enum Observation {
    Nothing,
    Answer(ToolResponse),
    CannotGoBack,
}

/// What decides.
pub(crate) trait Model {
    /// What to do, now that this was seen.
    fn next(&mut self, seen: &Observation) -> Action;
}

/// A model with a plan for every attempt. When a tool fails it gives the attempt up, goes back and makes the next one.
#[derive(Debug)]
pub(crate) struct ScriptedModel {
    beginning: Vec<Action>,
    attempts: VecDeque<Vec<Action>>,
    now: VecDeque<Action>,
}

const CHECK: &str = "\
grep -qx Ada names.txt || { echo 'names.txt was spoilt'; exit 1; }
grep -qx 'Hello, Grace!' greetings.txt && echo 'all good'
";

impl ScriptedModel {
    /// Greets everybody whose name is in a file, the second time without spoiling the file.
    pub(crate) fn new() -> Self {
        let write = |path: &str, content: &str| Action::Call {
            tool: "write_file",
            params: json!({ "path": path, "content": content }),
        };
        let bash = |command: &str| Action::Call { tool: "bash", params: json!({ "cmd": command }) };
        let beginning = vec![write("names.txt", "Ada\nGrace\n"), write("check.sh", CHECK)];
        let mut now = VecDeque::from(beginning.clone());
        now.push_front(Action::Say("first the names, and a check that says when the work is done"));
        now.push_back(Action::EndTurn);
        let attempts = VecDeque::from([
            vec![
                Action::Say("the quickest way is to change the names where they are"),
                bash("sed -i 's/.*/Hello, &!/' names.txt && cp names.txt greetings.txt"),
                bash("sh check.sh"),
                Action::EndTurn,
                Action::Finish("greetings.txt greets everybody"),
            ],
            vec![
                Action::Say("this time the names stay as they are"),
                bash("sed 's/.*/Hello, &!/' names.txt > greetings.txt"),
                bash("sh check.sh"),
                Action::EndTurn,
                Action::Finish("greetings.txt greets everybody"),
            ],
        ]);
        Self { beginning, attempts, now }
    }
}

impl Model for ScriptedModel {
    fn next(&mut self, seen: &Observation) -> Action {
        match seen {
            Observation::Answer(answer) if answer.is_error => {
                self.now = [Action::Say("that went wrong: back to the end of the last turn"), Action::GoBack].into();
            }
            Observation::CannotGoBack => {
                self.now = self.beginning.clone().into();
                self.now.push_front(Action::Say("then I put things right by hand"));
            }
            Observation::Nothing | Observation::Answer(_) => {}
        }
        if self.now.is_empty() {
            self.now = self.attempts.pop_front().unwrap_or_default().into();
        }
        self.now.pop_front().unwrap_or(Action::Finish("I do not know what else to try"))
    }
}
