//! `top`, as people see it.

use rustix::process::Signal;
use sandbar_testing::{TestServer, tree::scratch};

use super::tmux::Window;
use crate::world::{World, options};

/// The ids in the order in which they are listed.
fn listed(screen: &str) -> Vec<String> {
    let rows = screen
        .lines()
        .skip_while(|line| !line.starts_with("ID"))
        .skip(1);
    rows.filter(|line| line.contains("active"))
        .filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
        .collect()
}

#[test]
fn top_is_drawn_sorted_filtered_resized_and_left() {
    let world = World::new();
    for id in ["one", "two", "three"] {
        world.sandbox(id);
    }
    world.shell("two", "head -c 3000000 /dev/urandom > large");
    world
        .run(["launch", "three", "--", "sh", "-c", "while :; do :; done"])
        .data();
    let Some(mut window) = Window::open(&world.server, 24, 120) else {
        return;
    };
    window.remember_modes();
    window.enter("echo before-$((1+1))");
    window.see("before-2");
    window.enter("sandbar top");
    window.see("sessions  3 (3 active)");
    assert!(window.is_alternate());
    window.see("CPU▼");
    window.see(world.server.url());
    window.look("the busy one comes first", |screen| {
        listed(screen).first().is_some_and(|id| id == "three")
    });
    window.write("d");
    window.look("the largest one comes first", |screen| {
        screen.contains("DISK▼") && listed(screen).first().is_some_and(|id| id == "two")
    });
    window.write("i");
    window.look("sorted by id", |screen| {
        listed(screen) == ["one", "three", "two"]
    });
    window.write("r");
    window.look("turned round", |screen| {
        screen.contains("ID▲") && listed(screen) == ["two", "three", "one"]
    });
    window.write("/thr");
    window.press("Enter");
    window.look("filtered", |screen| listed(screen) == ["three"]);
    window.press("Enter");
    window.see("launched processes");
    window.see("while :; do :; done");
    window.press("Escape");
    window.see("filter `thr`");
    window.resize(8, 50);
    window.look("drawn for the smaller screen", |screen| {
        screen.lines().count() == 8
            && screen.starts_with("sandbar top")
            && listed(screen) == ["three"]
    });
    window.resize(30, 180);
    window.see("? help");
    window.write("q");
    window.see("before-2");
    assert_eq!(window.done(), 0);
    window.as_before();
}

#[test]
fn top_steps_back_for_ctrl_z_and_leaves_for_ctrl_c_and_signals() {
    let world = World::new();
    world.sandbox("box");
    let Some(mut window) = Window::open(&world.server, 24, 120) else {
        return;
    };
    window.remember_modes();
    window.enter("sandbar top");
    window.see("sessions  1");
    window.press("C-z");
    window.see("Stopped");
    window.as_before();
    window.enter("fg");
    window.see("sessions  1");
    window.press("C-c");
    assert_eq!(window.done(), 0);
    window.as_before();
    window.enter("clear; sandbar top");
    window.see("sessions  1");
    window.press("C-z");
    window.see("Stopped");
    window.enter("kill -TERM %1; fg");
    // Until then the prompt it was typed at is the last line, and what is typed next would be for
    // `top`.
    window.see("$ kill -TERM %1; fg");
    assert_eq!(window.done(), 143);
    window.as_before();
}

#[test]
fn top_waits_for_a_host_that_went_away() {
    let directory = scratch();
    let start = || World {
        server: TestServer::start_in(&options(), directory.path()),
    };
    let world = start();
    world.sandbox("box");
    let Some(mut window) = Window::open(&world.server, 24, 120) else {
        return;
    };
    window.remember_modes();
    window.enter("sandbar top --interval 100ms");
    window.see("sessions  1 (1 active)");
    let World { server } = world;
    server.stop_with(Signal::KILL);
    window.see("no answer from http://");
    window.see("trying again");
    let world = start();
    window.look("the new host is shown", |screen| {
        screen.contains(world.server.url())
            && !screen.contains("no answer")
            && listed(screen) == ["box"]
    });
    window.write("q");
    assert_eq!(window.done(), 0);
    window.as_before();
}

#[test]
fn where_there_is_no_screen_one_table_is_printed() {
    let world = World::new();
    world.sandbox("box");
    let table = world.run(["top"]).data();
    let headings: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        headings,
        [
            "ID", "STATE", "BASE", "AGE", "CPU", "MEMORY", "PROCS", "DISK"
        ]
    );
    assert!(
        table
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("box ")),
        "{table}"
    );
    let report: serde_json::Value =
        serde_json::from_str(&world.run(["top", "--json"]).data()).unwrap();
    assert_eq!(report["host"]["url"], world.server.url());
    assert_eq!(report["sessions"][0]["session"]["session_id"], "box");
    assert_eq!(report["sessions"][0]["session"]["usage"]["processes"], 0);
    assert_eq!(report["sessions"][0]["cpu"], 0.0);
    let Some(window) = Window::open(&world.server, 24, 120) else {
        return;
    };
    window.enter("TERM=dumb sandbar top; sandbar top --once | cat");
    window.look("two tables are printed", |screen| {
        screen.matches("PROCS").count() == 2
    });
    assert!(!window.is_alternate());
}
