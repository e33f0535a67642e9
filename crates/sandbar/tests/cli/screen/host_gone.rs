//! A host that is killed while a command runs.

use rustix::process::Signal;
use sandbar_testing::{TestServer, tree::scratch};

use super::tmux::Window;
use crate::world::{World, options};

#[test]
fn killed_host_is_reported_and_terminal_restored() {
    let directory = scratch();
    let start = || World {
        server: TestServer::start_in(&options(), directory.path()),
    };
    let world = start();
    world.sandbox("box");
    let Some(mut window) = Window::open(&world.server, 24, 200) else {
        return;
    };
    window.remember_modes();
    window.enter("sandbar exec -it box -- sh -c 'echo ready-$((1+1)); exec sleep 600'");
    window.see("ready-2");
    let World { server } = world;
    let url = server.url().to_owned();
    server.stop_with(Signal::KILL);
    // Ends processes that the killed host has left.
    drop(start());
    window.see(&format!(
        "error: the host at {url} went away before the command had ended"
    ));
    window.see("start it again; its sandboxes are kept");
    assert_eq!(window.done(), 1);
    window.as_before();
    window.enter("sandbar ls");
    window.see("error: no answer from a Sandbar host");
    window.see("start one with `sandbar up`");
    assert_eq!(window.done(), 1);
}
