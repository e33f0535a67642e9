//! The tab key in bash.

use super::tmux::Window;
use crate::world::World;

#[test]
fn tab_completes_verbs_options_names_and_sandbox_files() {
    let world = World::new();
    world.sandbox("build-42");
    world.shell("build-42", "mkdir src; touch src/main.rs");
    world.run(["snapshot", "build-42", "before-upgrade"]).data();
    let Some(mut window) = Window::open(&world.server, 24, 120) else {
        return;
    };
    window.enter("source <(sandbar completion bash)");
    window.done();
    for (typed, completed) in [
        ("sandbar inspe", "sandbar inspect "),
        ("sandbar inspect b", "sandbar inspect build-42 "),
        ("sandbar ls --st", "sandbar ls --state "),
        ("sandbar ls --state hib", "sandbar ls --state hibernated "),
        (
            "sandbar rollback build-42 be",
            "sandbar rollback build-42 before-upgrade ",
        ),
        (
            "sandbar fork build-42 --from=be",
            "sandbar fork build-42 --from=before-upgrade ",
        ),
        ("sandbar new --base=h", "sandbar new --base=host "),
        ("sandbar cp /etc/hostn", "sandbar cp /etc/hostname "),
        ("sandbar cp buil", "sandbar cp build-42:"),
        ("sandbar cp build-42:s", "sandbar cp build-42:src/"),
        (
            "sandbar cp build-42:src/m",
            "sandbar cp build-42:src/main.rs ",
        ),
        ("true | sandbar base r", "true | sandbar base rm "),
    ] {
        window.write(typed);
        window.press("Tab");
        // The mark makes trailing spaces visible.
        window.write("|");
        window.see(&format!("$ {completed}|"));
        window.press("C-u");
        window.enter("clear");
        window.look("the screen is empty", |screen| screen.trim() == "$");
    }
    // A missing host causes neither a delay nor a message.
    window.enter("export SANDBAR_DATA_DIR=/no/such/dir SANDBAR_URL=http://127.0.0.1:1; clear");
    window.write("sandbar inspect b");
    window.press("Tab");
    window.press("Tab");
    window.write("|");
    window.see("$ sandbar inspect b|");
}
