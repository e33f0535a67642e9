//! Deep, wide and changing trees, walked by every call that walks.

use std::{path::Path, sync::Arc};

use sandbar_core::{DirNews, Keep, Quiesce, Result, SnapshotName};
use serde_json::json;
use tokio_stream::StreamExt as _;

use crate::{
    attacker::{Attacker, answered, assert_no_fault, flood},
    attempt::attempts,
};

attempts! {
    deep_tree_listed_with_any_depth,
    deep_tree_listed_by_tools,
    deep_tree_listed_by_e2b,
    deep_tree_removed,
    deep_tree_renamed_and_removed_at_once,
    deep_tree_exported,
    deep_tree_diffed_and_rolled_back,
    deep_tree_hibernated,
    wide_directory_listed_with_any_depth,
    wide_directory_listed_by_e2b,
    wide_directory_diffed,
    wide_tree_watched,
    watched_tree_that_changes_without_end,
    tree_that_changes_while_exported,
    tree_renamed_while_walked,
    listings_many_at_once,
    one_file_with_many_links,
}

/// Makes directories inside one another, with names of 50 letters.
fn deep(levels: usize) -> String {
    format!(
        "import os\nos.makedirs('/workspace/t')\nos.chdir('/workspace/t')\nn='d'*50\nfor k in range({levels}):\n os.mkdir(n); os.chdir(n)\nopen('end','w').write('x')"
    )
}

/// Makes empty files with names of 200 letters in one directory.
fn wide(files: usize) -> String {
    format!(
        "import os\nos.makedirs('/workspace/t')\nos.chdir('/workspace/t')\nfor k in range({files}): open('w'*190+'%06d'%k,'w').close()"
    )
}

const TREE: &str = "/workspace/t";

impl Attacker {
    /// Lists a directory and drops the entries.
    async fn list(&self, path: &str, depth: u32) -> Result<usize> {
        let listing = self
            .client
            .list_dir_stream(&self.id, Path::new(path), depth);
        let mut entries = answered("list_dir", listing).await?;
        let mut count = 0;
        while let Some(entry) =
            answered("list_dir", async { entries.next().await.transpose() }).await?
        {
            count += usize::from(!entry.path.as_os_str().is_empty());
        }
        Ok(count)
    }

    async fn snapshot(&self, name: &str) -> Result<()> {
        let name: SnapshotName = name.parse().unwrap();
        let taken = self
            .client
            .create_snapshot(&self.id, Some(&name), Quiesce::WhereNeeded);
        answered("create_snapshot", taken).await.map(drop)
    }

    async fn diff(&self, from: &str) {
        let from = from.parse().unwrap();
        let _ = answered("diff", self.client.diff(&self.id, &from, None)).await;
    }

    async fn export(&self, path: &str) -> Result<u64> {
        let mut sink = tokio::io::sink();
        let exported = self
            .client
            .export_tree(&self.id, Path::new(path), &mut sink);
        answered("export_tree", exported).await
    }

    async fn remove(&self, path: &str) {
        let removed = self.client.remove_path(&self.id, Path::new(path));
        let _ = answered("remove_path", removed).await;
    }
}

async fn deep_tree_listed_with_any_depth(attacker: Arc<Attacker>) {
    attacker.prepare(&deep(4000)).await;
    let _ = attacker.list(TREE, u32::MAX).await;
}

async fn deep_tree_listed_by_tools(attacker: Arc<Attacker>) {
    attacker.prepare(&deep(3000)).await;
    for params in [
        json!({"path": TREE, "depth": 4_294_967_295_u32}),
        json!({"path": TREE, "depth": 3000}),
    ] {
        let _ = attacker.tool("list_dir", params).await;
    }
    let _ = attacker
        .tool("glob", json!({"pattern": "**/end", "path": TREE}))
        .await;
    let _ = attacker
        .tool("grep", json!({"pattern": "x", "path": TREE}))
        .await;
}

async fn deep_tree_listed_by_e2b(attacker: Arc<Attacker>) {
    attacker.prepare(&deep(2000)).await;
    let answer = attacker
        .envd(
            "filesystem.Filesystem/ListDir",
            &json!({"path": TREE, "depth": 4_294_967_295_u32}),
        )
        .await;
    assert_no_fault("ListDir", &answer);
}

async fn deep_tree_removed(attacker: Arc<Attacker>) {
    attacker.prepare(&deep(4000)).await;
    attacker.remove(TREE).await;
}

async fn deep_tree_renamed_and_removed_at_once(attacker: Arc<Attacker>) {
    attacker.prepare(&deep(2000)).await;
    let mover = attacker
        .started(
            "import os\nprint('ready',flush=True)\nos.chdir('/workspace')\nfor k in range(200000):\n try:\n  os.rename('t','u'); os.rename('u','t')\n except OSError: pass",
        )
        .await;
    tokio::join!(
        attacker.remove(TREE),
        attacker.remove("/workspace/u"),
        attacker.remove(TREE)
    );
    drop(mover);
}

async fn deep_tree_exported(attacker: Arc<Attacker>) {
    attacker.prepare(&deep(3000)).await;
    let _ = attacker.export(TREE).await;
}

async fn deep_tree_diffed_and_rolled_back(attacker: Arc<Attacker>) {
    attacker.snapshot("before").await.unwrap();
    attacker.prepare(&deep(3000)).await;
    attacker.diff("before").await;
    attacker.snapshot("after").await.unwrap();
    let to = "before".parse().unwrap();
    let rolled =
        attacker
            .client
            .rollback_session(&attacker.id, &to, sandbar_core::LaterSnapshots::Keep);
    let _ = answered("rollback", rolled).await;
}

async fn deep_tree_hibernated(attacker: Arc<Attacker>) {
    attacker.prepare(&deep(3000)).await;
    let packed = attacker.client.hibernate_session(&attacker.id);
    if answered("hibernate", packed).await.is_ok() {
        answered("wake", attacker.client.wake_session(&attacker.id))
            .await
            .unwrap();
    }
}

async fn wide_directory_listed_with_any_depth(attacker: Arc<Attacker>) {
    attacker.prepare(&wide(12_000)).await;
    let _ = attacker.list(TREE, 1).await;
    let _ = attacker
        .tool("list_dir", json!({"path": TREE, "depth": 50}))
        .await;
    let _ = attacker
        .tool(
            "glob",
            json!({"pattern": "*", "path": TREE, "max_results": 4_000_000_000_u32}),
        )
        .await;
}

async fn wide_directory_listed_by_e2b(attacker: Arc<Attacker>) {
    attacker.prepare(&wide(8000)).await;
    let listing = json!({"path": TREE, "depth": 2});
    let call = "filesystem.Filesystem/ListDir";
    let (first, second) =
        tokio::join!(attacker.envd(call, &listing), attacker.envd(call, &listing));
    assert_no_fault("ListDir", &first);
    assert_no_fault("ListDir", &second);
}

async fn wide_directory_diffed(attacker: Arc<Attacker>) {
    attacker.snapshot("before").await.unwrap();
    attacker.prepare(&wide(8000)).await;
    attacker.diff("before").await;
}

async fn wide_tree_watched(attacker: Arc<Attacker>) {
    attacker
        .prepare(
            "import os\nos.makedirs('/workspace/t')\nos.chdir('/workspace/t')\nfor k in range(6000): os.mkdir('d%d'%k)",
        )
        .await;
    let mut watches = Vec::new();
    for _ in 0..4 {
        let watch = attacker
            .client
            .watch_dir(&attacker.id, Path::new(TREE), true);
        if let Ok(watch) = answered("watch_dir", watch).await {
            watches.push(watch);
        }
    }
    attacker.hold(2).await;
}

async fn watched_tree_that_changes_without_end(attacker: Arc<Attacker>) {
    attacker
        .prepare("import os\nos.makedirs('/workspace/t')")
        .await;
    let watch = attacker
        .client
        .watch_dir(&attacker.id, Path::new(TREE), true);
    let mut watch = answered("watch_dir", watch).await.unwrap();
    let changer = attacker
        .started(
            "import os\nprint('ready',flush=True)\nos.chdir('/workspace/t')\nfor k in range(10**6):\n n='x'*200+str(k%5000)\n try:\n  os.mkdir(n); os.rename(n,n+'y'); open(n+'y/f','w').close(); os.unlink(n+'y/f'); os.rmdir(n+'y')\n except OSError: pass",
        )
        .await;
    // A reader that is far slower than the writer.
    for _ in 0..50 {
        let news = answered("watch_dir", watch.next()).await;
        if !matches!(news, Ok(Some(DirNews::Changed(_)))) {
            break;
        }
    }
    attacker.hold(5).await;
    drop(changer);
}

async fn tree_that_changes_while_exported(attacker: Arc<Attacker>) {
    attacker
        .prepare(
            "import os\nos.makedirs('/workspace/t')\nos.chdir('/workspace/t')\nfor k in range(300): open('f%d'%k,'w').write('x'*20000)",
        )
        .await;
    let changer = attacker
        .started(
            "import os\nprint('ready',flush=True)\nos.chdir('/workspace/t')\nfor k in range(10**6):\n n='f%d'%(k%300)\n try:\n  os.truncate(n,(k*7919)%40000)\n  if k%3==0: os.unlink(n); os.mkfifo(n)\n  if k%3==1: os.unlink(n); os.symlink('/etc/shadow',n)\n except OSError: pass\n try: os.unlink(n)\n except OSError: pass\n open(n,'w').write('y'*30000)",
        )
        .await;
    for _ in 0..4 {
        let _ = attacker.export(TREE).await;
    }
    drop(changer);
}

async fn tree_renamed_while_walked(attacker: Arc<Attacker>) {
    attacker
        .prepare(
            "import os\nfor a in range(12):\n for b in range(12): os.makedirs('/workspace/t/a%d/b%d/c'%(a,b))\nos.makedirs('/workspace/out')",
        )
        .await;
    let mover = attacker
        .started(
            "import os\nprint('ready',flush=True)\nos.chdir('/workspace')\nfor k in range(10**6):\n a='t/a%d'%(k%12)\n try:\n  os.rename(a,'out/x'); os.symlink('/',a); os.unlink(a); os.rename('out/x',a)\n except OSError: pass",
        )
        .await;
    for _ in 0..5 {
        let _ = attacker.list(TREE, 10).await;
        let _ = attacker
            .tool("glob", json!({"pattern": "**/passwd", "path": TREE}))
            .await;
        let _ = attacker.export(TREE).await;
    }
    drop(mover);
}

async fn listings_many_at_once(attacker: Arc<Attacker>) {
    attacker.prepare(&wide(1500)).await;
    let (client, id) = (attacker.client.clone(), attacker.id.clone());
    flood("list_dir", 100, 50, |_| {
        let (client, id) = (client.clone(), id.clone());
        async move {
            let entries = client.list_dir(&id, Path::new(TREE), 5).await?;
            Ok(entries.len())
        }
    })
    .await;
}

async fn one_file_with_many_links(attacker: Arc<Attacker>) {
    attacker
        .prepare(
            "import os\nos.makedirs('/workspace/t')\nos.chdir('/workspace/t')\nopen('f','w').write('needle\\n'*20000)\nfor k in range(800): os.link('f','l%d'%k)",
        )
        .await;
    let _ = attacker
        .tool("grep", json!({"pattern": "absent", "path": TREE}))
        .await;
    let _ = attacker.export(TREE).await;
    let paused = attacker
        .client
        .pause_session_keeping(&attacker.id, Keep::Files);
    let _ = answered("pause", paused).await;
}
