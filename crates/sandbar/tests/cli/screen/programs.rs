//! Full-screen programs in a sandbox.

use super::tmux::Window;
use crate::world::World;

#[test]
fn a_pager_fills_the_screen_follows_its_size_and_gives_it_back() {
    let world = World::new();
    let Some(mut window) = Window::open(&world.server, 24, 80) else {
        return;
    };
    window.remember_modes();
    window.enter("sandbar run -it -- sh -c 'seq -f line-%g 1000 > numbers; exec less numbers'");
    window.see_alternate("line-23");
    window.resize(12, 40);
    window.look("less uses the smaller screen", |screen| {
        screen.contains("line-11") && !screen.contains("line-12") && screen.lines().count() == 12
    });
    window.write("G");
    window.see("line-1000");
    window.resize(30, 100);
    window.write("g");
    window.look("less uses the larger screen", |screen| {
        screen.contains("line-1\n") && screen.contains("line-29")
    });
    window.write("q");
    assert_eq!(window.done(), 0);
    window.as_before();
    assert!(world.ids().is_empty());
}

#[test]
fn an_editor_edits() {
    let world = World::new();
    world.sandbox("box");
    let Some(mut window) = Window::open(&world.server, 24, 80) else {
        return;
    };
    window.remember_modes();
    window.enter("sandbar exec -it box -- vi -u NONE notes.txt");
    window.see_alternate("notes.txt");
    window.write("ihello from vi");
    window.see("hello from vi");
    window.press("Escape");
    window.enter(":wq");
    assert_eq!(window.done(), 0);
    window.as_before();
    assert_eq!(world.shell("box", "cat notes.txt"), "hello from vi\n");
}

#[test]
fn a_live_view_in_a_sandbox_is_left_with_its_own_key() {
    let world = World::new();
    world.sandbox("box");
    let Some(mut window) = Window::open(&world.server, 24, 100) else {
        return;
    };
    window.remember_modes();
    window.enter("sandbar exec -it box -- top");
    window.see("PID");
    window.resize(10, 60);
    window.look("top has drawn the smaller screen", |screen| {
        screen.lines().count() == 10 && screen.contains("PID")
    });
    window.write("q");
    assert_eq!(window.done(), 0);
    window.as_before();
}
