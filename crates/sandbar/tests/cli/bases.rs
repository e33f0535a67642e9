//! `base`.

use std::fs;

use sandbar_testing::tree::scratch;
use serde_json::Value;

use crate::world::World;

#[test]
fn the_host_base_is_there_from_the_start() {
    let world = World::new();
    assert_eq!(world.run(["base", "ls", "-q"]).data(), "host\n");
    let table = world.run(["base", "ls"]).data();
    assert!(
        table.starts_with("NAME") && table.contains("\nhost "),
        "{table}"
    );
    let listed: Value = serde_json::from_str(&world.run(["base", "ls", "--json"]).data()).unwrap();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["source"]),
        (&"host".into(), &"host".into())
    );
}

#[test]
fn base_is_imported_by_a_relative_path_and_removed() {
    let (world, here) = (World::new(), scratch());
    fs::create_dir_all(here.path().join("rootfs/etc")).unwrap();
    fs::write(here.path().join("rootfs/etc/motd"), "welcome").unwrap();
    assert_eq!(
        world
            .run_in(here.path(), &["base", "import", "mine", "rootfs"])
            .data(),
        "mine\n"
    );
    assert_eq!(
        world.run(["new", "--base", "mine", "--id", "box"]).word(),
        "box"
    );
    world
        .run_in(here.path(), &["cp", "box:/etc/motd", "motd"])
        .data();
    assert_eq!(
        fs::read_to_string(here.path().join("motd")).unwrap(),
        "welcome"
    );
    world.run(["base", "rm", "mine"]).refused(1, &["mine"]);
    world.run(["rm", "box"]).data();
    assert_eq!(world.run(["base", "rm", "mine"]).data(), "mine\n");
    assert_eq!(world.run(["base", "ls", "-q"]).data(), "host\n");
}

#[test]
fn imports_that_cannot_work_are_refused_and_leave_no_base() {
    let (world, here) = (World::new(), scratch());
    fs::write(here.path().join("noise"), "this is no image").unwrap();
    world
        .run_in(here.path(), &["base", "import", "x", "missing"])
        .refused(1, &["missing"]);
    world
        .run_in(here.path(), &["base", "import", "x", "noise"])
        .refused(1, &["noise"]);
    world
        .run(["base", "import", "host", "host"])
        .refused(1, &["host"]);
    world.run(["base", "rm", "never"]).refused(1, &["never"]);
    assert_eq!(world.run(["base", "ls", "-q"]).data(), "host\n");
}

#[test]
fn base_saved_from_a_sandbox_outlives_it() {
    let world = World::new();
    world.sandbox("box");
    world.shell("box", "echo then > file");
    world.run(["snapshot", "box", "s"]).data();
    world.shell("box", "echo now > file");
    assert_eq!(
        world
            .run([
                "base",
                "save",
                "box",
                "then",
                "--snapshot",
                "s",
                "-e",
                "WARM=yes"
            ])
            .data(),
        "then\n"
    );
    let saved: Value =
        serde_json::from_str(&world.run(["base", "save", "box", "now", "--json"]).data()).unwrap();
    assert_eq!(
        (&saved["name"], &saved["source"]),
        (&"now".into(), &"session".into())
    );
    world
        .run(["base", "save", "box", "now"])
        .refused(1, &["now"]);
    world.run(["rm", "box"]).data();
    assert_eq!(world.run(["base", "ls", "-q"]).data(), "host\nnow\nthen\n");
    world.run(["new", "--base", "then", "--id", "copy"]).data();
    assert_eq!(world.shell("copy", "cat file; echo $WARM"), "then\nyes\n");
    assert_eq!(
        world.run(["base", "rm", "then", "now"]).data(),
        "then\nnow\n"
    );
    assert_eq!(world.shell("copy", "cat file; echo $WARM"), "then\nyes\n");
    world.run(["base", "rm", "host"]).refused(1, &["copy"]);
}
