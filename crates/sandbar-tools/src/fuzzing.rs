//! Entry points of the fuzzer. Each takes any bytes, and panics where an invariant is broken.

pub use crate::host::fuzzing::{edit, ignore_rules};
use crate::{
    PreparedCall, list_tools,
    text::{CONTENT_LIMIT, Transcript, Utf8Stream},
};

/// Parameters of every tool: a JSON object.
pub fn tool_parameters(bytes: &[u8]) {
    let Ok(params) = serde_json::from_slice::<sandbar_core::ToolParams>(bytes) else {
        return;
    };
    for tool in list_tools() {
        if let Err(error) = PreparedCall::new(&tool.name, params.clone()) {
            assert!(
                error.field().is_some(),
                "{}: {error} names no parameter",
                tool.name
            );
        }
    }
}

/// The output of a command, in pieces as long as its bytes say.
pub fn command_output(bytes: &[u8]) {
    let (mut stream, mut transcript, mut rest) =
        (Utf8Stream::default(), Transcript::default(), bytes);
    while let Some(length) = rest.first() {
        let (piece, after) = rest.split_at(rest.len().min(usize::from(*length) + 1));
        transcript.push(&stream.push(piece));
        rest = after;
    }
    transcript.push(&stream.finish());
    let (text, was_cut) = transcript.finish();
    assert!(
        was_cut == (String::from_utf8_lossy(bytes).len() > CONTENT_LIMIT),
        "{} of {}",
        text.len(),
        bytes.len()
    );
    assert!(
        was_cut || text == String::from_utf8_lossy(bytes),
        "text changed on its way"
    );
}
