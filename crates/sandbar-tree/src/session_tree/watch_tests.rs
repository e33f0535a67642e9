use std::{fs, os::unix::fs::symlink};

use super::*;

struct Scene {
    scratch: tempfile::TempDir,
    watch: TreeWatch,
}

impl Scene {
    fn new(recursive: bool) -> Self {
        Self::within(Arc::default(), recursive)
    }

    fn within(budget: Arc<WatchBudget>, recursive: bool) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("root/work/old/deep")).unwrap();
        fs::create_dir_all(scratch.path().join("root/elsewhere")).unwrap();
        fs::create_dir_all(scratch.path().join("outside")).unwrap();
        symlink("../../../outside", scratch.path().join("root/work/link")).unwrap();
        let tree = SessionTree::open(&scratch.path().join("root"), None).unwrap();
        let watch = TreeWatch::open_within(budget, tree, Path::new("/work"), recursive).unwrap();
        Self { scratch, watch }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.scratch.path().join("root").join(path)
    }

    /// Returns the pending events as text.
    fn told(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let batch = self.watch.read().unwrap();
            all.extend(batch.news);
            if batch.drained {
                break;
            }
        }
        all.extend(self.watch.resolve_pending_move());
        all.iter().map(words).collect()
    }
}

fn words(news: &DirNews) -> String {
    let DirNews::Changed(DirChange { kind, path, is_dir }) = news else {
        return "overflow".to_owned();
    };
    let slash = if *is_dir { "/" } else { "" };
    let what = match kind {
        DirChangeKind::Created => "created",
        DirChangeKind::Written => "written",
        DirChangeKind::Removed => "removed",
        DirChangeKind::Left => "left",
        DirChangeKind::Attributes => "attributes",
        DirChangeKind::Renamed { from } => {
            return format!("{}{slash} -> {}{slash}", from.display(), path.display());
        }
    };
    format!("{what} {}{slash}", path.display())
}

#[test]
fn watch_reports_file_changes_in_order() {
    let mut scene = Scene::new(true);
    fs::write(scene.path("work/old/deep/a"), "x").unwrap();
    fs::rename(scene.path("work/old/deep/a"), scene.path("work/b")).unwrap();
    fs::rename(scene.path("work/b"), scene.path("elsewhere/b")).unwrap();
    fs::rename(scene.path("elsewhere/b"), scene.path("work/c")).unwrap();
    fs::set_permissions(
        scene.path("work/c"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    fs::remove_file(scene.path("work/c")).unwrap();
    assert_eq!(
        scene.told(),
        [
            "created /work/old/deep/a",
            "written /work/old/deep/a",
            "/work/old/deep/a -> /work/b",
            "left /work/b",
            "created /work/c",
            "attributes /work/c",
            "removed /work/c",
        ]
    );
    assert_eq!(scene.told(), Vec::<String>::new());
}

#[test]
fn watch_reports_entries_of_new_directories_once() {
    let mut scene = Scene::new(true);
    fs::create_dir_all(scene.path("work/x/y/z")).unwrap();
    fs::write(scene.path("work/x/y/z/file"), "").unwrap();
    assert_eq!(
        scene.told(),
        [
            "created /work/x/",
            "created /work/x/y/",
            "created /work/x/y/z/",
            "created /work/x/y/z/file"
        ]
    );
    fs::write(scene.path("work/x/y/later"), "").unwrap();
    fs::rename(scene.path("work/x"), scene.path("work/renamed")).unwrap();
    fs::write(scene.path("work/renamed/y/z/after"), "").unwrap();
    assert_eq!(
        scene.told(),
        [
            "created /work/x/y/later",
            "/work/x/ -> /work/renamed/",
            "created /work/renamed/y/z/after"
        ]
    );
    fs::rename(scene.path("work/renamed"), scene.path("elsewhere/x")).unwrap();
    assert_eq!(scene.told(), ["left /work/renamed/"]);
    // It is no longer in the part that is watched.
    fs::write(scene.path("elsewhere/x/y/more"), "").unwrap();
    assert_eq!(scene.told(), Vec::<String>::new());
}

#[test]
fn watch_misses_nothing_of_many_new_directories() {
    let mut scene = Scene::new(true);
    let root = scene.path("work");
    let maker = std::thread::spawn(move || {
        for number in 0..300 {
            let directory = root.join(format!("d{number}/e"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("f"), "").unwrap();
        }
    });
    let mut told = Vec::new();
    while !maker.is_finished() {
        told.extend(scene.told());
    }
    maker.join().unwrap();
    told.extend(scene.told());
    for number in 0..300 {
        let file = format!("created /work/d{number}/e/f");
        assert_eq!(
            told.iter().filter(|news| **news == file).count(),
            1,
            "{file}"
        );
    }
}

#[test]
fn watch_does_not_follow_links_and_flat_is_flat() {
    let mut scene = Scene::new(true);
    fs::write(scene.scratch.path().join("outside/secret"), "").unwrap();
    assert_eq!(scene.told(), Vec::<String>::new());
    let tree = SessionTree::open(&scene.path(""), None).unwrap();
    let through = TreeWatch::open(tree, Path::new("/work/link"), true);
    assert_eq!(through.unwrap_err().code(), ErrorCode::FileNotFound);
    let mut flat = Scene::new(false);
    fs::write(flat.path("work/old/file"), "").unwrap();
    fs::create_dir_all(flat.path("work/new/below")).unwrap();
    assert_eq!(flat.told(), ["created /work/new/"]);
}

#[test]
fn watch_of_a_moved_directory_ends_after_its_news() {
    let mut scene = Scene::new(true);
    fs::remove_file(scene.path("work/link")).unwrap();
    fs::rename(scene.path("work"), scene.path("moved")).unwrap();
    let batch = scene.watch.read().unwrap();
    assert_eq!(
        batch.news.iter().map(words).collect::<Vec<_>>(),
        ["removed /work/link"]
    );
    assert!(!batch.drained);
    assert_eq!(
        scene.watch.read().unwrap_err().code(),
        ErrorCode::FileNotFound
    );
}

#[test]
fn watch_continues_after_a_queue_overflow() {
    let mut scene = Scene::new(true);
    let limit: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    for number in 0..=limit / 2 {
        let file = scene.path("work").join(format!("f{number}"));
        fs::write(&file, "").unwrap();
        fs::remove_file(&file).unwrap();
    }
    fs::create_dir(scene.path("work/unseen")).unwrap();
    assert!(scene.told().contains(&"overflow".to_owned()));
    fs::write(scene.path("work/unseen/file"), "").unwrap();
    assert_eq!(scene.told(), ["created /work/unseen/file"]);
}

#[test]
fn watches_of_a_budget_share_its_directories() {
    let scratch = tempfile::tempdir().unwrap();
    let budget = Arc::new(WatchBudget {
        max_directories: 150,
        ..WatchBudget::default()
    });
    let open = |path: &str| {
        let tree = SessionTree::open(scratch.path(), None).unwrap();
        TreeWatch::open_within(Arc::clone(&budget), tree, Path::new(path), true)
    };
    for number in 0..100 {
        fs::create_dir_all(scratch.path().join(format!("few/{number}"))).unwrap();
    }
    for number in 0..100 {
        fs::create_dir_all(scratch.path().join(format!("many/{number}"))).unwrap();
    }
    let few = open("/few").unwrap();
    assert_eq!(budget.directories.load(Ordering::Relaxed), 101);
    let error = open("/many").unwrap_err();
    assert_eq!(error.field(), Some("path"));
    assert!(error.message().contains("150"), "{error}");
    // What a failed or ended watch held is free again.
    assert_eq!(budget.directories.load(Ordering::Relaxed), 101);
    drop(few);
    drop(open("/many").unwrap());
    assert_eq!(budget.directories.load(Ordering::Relaxed), 0);
    assert_eq!(budget.path_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn paths_of_nested_renames_are_bounded() {
    let budget = WatchBudget {
        max_path_bytes: 20_000,
        ..WatchBudget::default()
    };
    let mut scene = Scene::within(Arc::new(budget), true);
    // Directories moved into one another have longer and longer paths.
    let mut innermost = scene.path("work/0");
    fs::create_dir(&innermost).unwrap();
    let mut end = None;
    for number in 1..500 {
        let outer = scene.path("work").join(number.to_string());
        fs::create_dir(&outer).unwrap();
        scene.watch.read().unwrap();
        fs::rename(&innermost, outer.join("inner")).unwrap();
        innermost = outer;
        if let Err(error) = read_all(&mut scene.watch) {
            end = Some(error);
            break;
        }
    }
    assert_eq!(end.unwrap().field(), Some("path"));
    let held = scene.watch.paths.budget.path_bytes.load(Ordering::Relaxed);
    assert!(held <= 25_000, "{held}");
}

fn read_all(watch: &mut TreeWatch) -> Result<()> {
    while !watch.read()?.drained {}
    Ok(())
}

#[test]
fn listing_of_a_huge_new_directory_is_an_overflow() {
    let budget = WatchBudget {
        max_listed_news: 100,
        ..WatchBudget::default()
    };
    let mut scene = Scene::within(Arc::new(budget), true);
    let outside = scene.path("elsewhere/huge");
    fs::create_dir(&outside).unwrap();
    for number in 0..150 {
        fs::write(outside.join(number.to_string()), "").unwrap();
    }
    fs::rename(&outside, scene.path("work/huge")).unwrap();
    let batch = scene.watch.read().unwrap();
    assert_eq!(batch.news.len(), 101);
    assert_eq!(batch.news.last(), Some(&DirNews::Overflow));
}
