//! Control keys while commands run in a sandbox.

use super::tmux::Window;
use crate::world::World;

#[test]
fn ctrl_c_ends_a_command_and_not_the_shell() {
    let world = World::new();
    world.sandbox("box");
    let Some(mut window) = Window::open(&world.server, 24, 100) else {
        return;
    };
    window.remember_modes();
    window.enter("sandbar exec box -- sh -c 'echo ready-$((1+1)); exec sleep 600'");
    window.see("ready-2");
    window.press("C-c");
    assert_eq!(window.done(), 130);
    window.as_before();
}

#[test]
fn in_a_shell_of_the_sandbox_control_keys_are_its_own() {
    let world = World::new();
    world.sandbox("box");
    let Some(mut window) = Window::open(&world.server, 30, 100) else {
        return;
    };
    window.remember_modes();
    window.enter("sandbar shell box");
    window.enter("echo inside-$((1+1)); sleep 600");
    window.see("inside-2");
    window.press("C-c");
    window.enter("echo still-$((2+2)) in $PWD; sh -c 'echo again-$((5+5)); exec sleep 600'");
    window.see("still-4 in /workspace");
    window.see("again-10");
    window.press("C-z");
    window.see("Stopped");
    window.enter("kill -9 %1; wait; echo killed-$((3+3))");
    window.see("killed-6");
    window.press("C-d");
    window.see("exit");
    window.done();
    window.as_before();
}

#[test]
fn ctrl_z_without_terminal_suspends_until_fg() {
    let world = World::new();
    world.sandbox("box");
    let Some(mut window) = Window::open(&world.server, 24, 100) else {
        return;
    };
    window.remember_modes();
    let line =
        "echo ready-$((1+1)); until [ -e go ]; do sleep 0.05; done; echo gone-$((2+2)); exit 7";
    window.enter(&format!("sandbar exec box -- sh -c '{line}'"));
    window.see("ready-2");
    window.press("C-z");
    window.see("Stopped");
    window.as_before();
    world.shell("box", "touch go");
    window.enter("fg");
    window.see("gone-4");
    assert_eq!(window.done(), 7);
    window.as_before();
}

#[test]
fn a_long_copy_shows_a_line_that_counts_and_ctrl_c_ends_it() {
    let world = World::new();
    world.sandbox("box");
    let Some(mut window) = Window::open(&world.server, 24, 100) else {
        return;
    };
    window.remember_modes();
    window.enter(
        "cd; truncate -s 1G large; stream() { tar c large | head -c 512; while cat block; do sleep 0.02; done; }",
    );
    window.enter("head -c 100000 /dev/zero > block; stream | sandbar cp - box:/workspace");
    window.look("the line counts", |screen| {
        screen.contains("\ncopying ") && screen.contains("iB")
    });
    window.press("C-c");
    assert_eq!(window.done(), 130);
    window.as_before();
    window.enter(
        "head -c 1000 /dev/zero > small; sandbar cp small box:small 2> said; cat said; rm -f large block small said",
    );
    assert_eq!(window.done(), 0);
}
