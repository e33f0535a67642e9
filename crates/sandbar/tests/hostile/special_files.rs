//! Files that are not what a reader expects.

use std::{path::Path, sync::Arc, time::Duration};

use sandbar_core::{MakeDirOptions, WriteOptions};
use serde_json::json;

use crate::{
    attacker::{Attacker, answered, assert_no_fault},
    attempt::attempts,
};

attempts! {
    fifos_and_sockets,
    links_in_circles,
    links_into_proc,
    sparse_file_of_eight_exbibytes,
    file_that_grows_while_read,
    file_replaced_by_fifo_while_read,
    names_of_every_kind,
    times_far_away,
    attributes_many_and_large,
    leases_on_files_the_host_opens,
    locks_on_files_the_host_opens,
    directory_in_place_of_files,
    modes_that_deny_everything,
    deleted_workspace,
}

const PLACE: &str =
    "import os\nos.makedirs('/workspace/t',exist_ok=True)\nos.chdir('/workspace/t')\n";

impl Attacker {
    /// Makes every call that reads or writes a path, and returns when all have an answer.
    async fn touch_all(&self, path: &str) {
        let place = Path::new(path);
        let mut sink = tokio::io::sink();
        let mut other = tokio::io::sink();
        let (client, id) = (&self.client, &self.id);
        let _ = tokio::join!(
            answered("stat", client.stat(id, place)),
            answered("read_file", client.read_file(id, place, &mut sink)),
            answered("list_dir", client.list_dir(id, place, 3)),
            answered("export_tree", client.export_tree(id, place, &mut other)),
            answered("watch_dir", client.watch_dir(id, place, true)),
        );
        let _ = tokio::join!(
            self.tool("read_file", json!({"path": path})),
            self.tool("list_dir", json!({"path": path})),
            self.tool("grep", json!({"pattern": "x", "path": path})),
            self.tool("glob", json!({"pattern": "**", "path": path})),
            self.tool(
                "edit_file",
                json!({"path": path, "old_string": "x", "new_string": "y"})
            ),
        );
        let stat = self
            .envd("filesystem.Filesystem/Stat", &json!({"path": path}))
            .await;
        assert_no_fault("Stat", &stat);
        let target = format!("/files?path={}", path.replace('/', "%2F"));
        let read = self.e2b("GET", &target, &[], b"").await;
        // Of `/proc`, the answer is that of a program in the box, with envd's status 500.
        if !read.text.contains("error opening file '/proc/") {
            assert_no_fault("download", &read);
        }
    }

    /// Replaces and removes a path.
    async fn replace(&self, path: &str) {
        let place = Path::new(path);
        let (client, id) = (&self.client, &self.id);
        let text = std::io::Cursor::new(b"text".to_vec());
        let _ = answered(
            "write_file",
            client.write_file(id, place, WriteOptions::default(), text),
        )
        .await;
        let made = client.make_dir(id, place, MakeDirOptions::default());
        let _ = answered("make_dir", made).await;
        let to = format!("{path}-moved");
        let moved = client.move_path(id, place, Path::new(&to), MakeDirOptions::default());
        let _ = answered("move_path", moved).await;
        let _ = answered("remove_path", client.remove_path(id, Path::new(&to))).await;
        let _ = answered("remove_path", client.remove_path(id, place)).await;
    }

    async fn touch_and_replace(&self, paths: &[&str]) {
        for path in paths {
            self.touch_all(path).await;
        }
        self.touch_all("/workspace/t").await;
        for path in paths {
            self.replace(path).await;
        }
    }
}

async fn fifos_and_sockets(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{PLACE}import socket\nos.mkfifo('fifo')\ns=socket.socket(socket.AF_UNIX); s.bind('sock')"
        ))
        .await;
    attacker
        .touch_and_replace(&["/workspace/t/fifo", "/workspace/t/sock"])
        .await;
}

async fn links_in_circles(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{PLACE}os.symlink('one','two'); os.symlink('two','one'); os.symlink('.','self'); os.symlink('/'.join(['self']*600),'far')\nfor k in range(60): os.symlink('c%d'%(k+1),'c%d'%k)\nos.symlink('/'.join(['a'*200]*15),'long')"
        ))
        .await;
    attacker
        .touch_and_replace(&[
            "/workspace/t/one",
            "/workspace/t/self/self/self/far",
            "/workspace/t/c0",
            "/workspace/t/long",
        ])
        .await;
}

async fn links_into_proc(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{PLACE}for k,v in dict(mem='/proc/self/mem',root='/proc/1/root',fd='/proc/self/fd/0',kmsg='/dev/kmsg',zero='/dev/zero',up='../../../../../../etc/shadow').items(): os.symlink(v,k)"
        ))
        .await;
    attacker
        .touch_and_replace(&[
            "/workspace/t/mem",
            "/workspace/t/root",
            "/workspace/t/fd",
            "/workspace/t/kmsg",
            "/workspace/t/zero",
            "/workspace/t/up",
            "/proc/self/environ",
            "/proc/1/mem",
        ])
        .await;
}

async fn sparse_file_of_eight_exbibytes(attacker: Arc<Attacker>) {
    // The largest file that the file system makes; gVisor's and btrfs's limits differ.
    attacker
        .prepare(&format!(
            "{PLACE}d=os.open('sparse',os.O_RDWR|os.O_CREAT)\nfor bits in range(63,30,-1):\n try:\n  os.ftruncate(d,2**bits-1); break\n except OSError: pass"
        ))
        .await;
    let before = "before".parse().unwrap();
    let taken = attacker.client.turn_complete(&attacker.id);
    let _ = answered("turn_complete", taken).await;
    let _ = attacker
        .tool(
            "read_file",
            json!({"path": "/workspace/t/sparse", "offset": 4_000_000_000_u64}),
        )
        .await;
    let diff = attacker.client.diff(&attacker.id, &before, None);
    let _ = answered("diff", diff).await;
    let range = [("range", "bytes=9223372036854775000-")];
    let target = "/files?path=%2Fworkspace%2Ft%2Fsparse";
    let answer = attacker.e2b("GET", target, &range, b"").await;
    assert_no_fault("download", &answer);
    // A reader that leaves.
    let stream = attacker
        .client
        .read_file_stream(&attacker.id, Path::new("/workspace/t/sparse"));
    drop(answered("read_file", stream).await);
    let grep = attacker.tool("grep", json!({"pattern": "x", "path": "/workspace/t"}));
    // A tool that would take until its own timeout is cancelled.
    let wait = Duration::from_secs(1);
    let _ = tokio::time::timeout(wait, grep).await;
}

async fn file_that_grows_while_read(attacker: Arc<Attacker>) {
    let writer = attacker
        .started(&format!(
            "{PLACE}print('ready',flush=True)\nf=open('log','ab',0)\nfor k in range(60): f.write(b'x'*1000000)"
        ))
        .await;
    for _ in 0..3 {
        attacker.touch_all("/workspace/t/log").await;
    }
    drop(writer);
}

async fn file_replaced_by_fifo_while_read(attacker: Arc<Attacker>) {
    let writer = attacker
        .started(&format!(
            "{PLACE}print('ready',flush=True)\nfor k in range(10**6):\n open('n','w').write('x'); os.rename('n','f'); os.mkfifo('n'); os.rename('n','f'); os.symlink('/dev/zero','n'); os.rename('n','f')"
        ))
        .await;
    for _ in 0..6 {
        attacker.touch_all("/workspace/t/f").await;
    }
    drop(writer);
}

async fn names_of_every_kind(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{PLACE}names=[b'\\n',b'\\x1b]0;owned\\x07',b'\\xff\\xfe',b'a'*255,b'-rf',b'%s%n','\\u202e'.encode(),b'\\r\\r',b' ',b'\\\\',b'{{',b'*',b'\"']\nfor n in names:\n os.mkdir(n); open(n+b'/'+n,'w').write('x needle')\n"
        ))
        .await;
    attacker.touch_all("/workspace/t").await;
    for path in [
        "/workspace/t/\n",
        "/workspace/t/\u{202e}",
        "/workspace/t/*",
        "/workspace/t/ ",
    ] {
        attacker.touch_all(path).await;
    }
    let turn = attacker.client.turn_complete(&attacker.id);
    let _ = answered("turn_complete", turn).await;
}

async fn times_far_away(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{PLACE}for k,t in enumerate((2**62,-2**62,999999999999,-999999999999,253402300800,2**31)):\n open('f%d'%k,'w').write('x'); os.mkdir('d%d'%k)\n for n in 'fd':\n  try: os.utime('%s%d'%(n,k),(t,t))\n  except (OSError,OverflowError): pass"
        ))
        .await;
    attacker
        .touch_and_replace(&[
            "/workspace/t/f0",
            "/workspace/t/f1",
            "/workspace/t/f2",
            "/workspace/t/f3",
        ])
        .await;
}

async fn attributes_many_and_large(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{PLACE}for k in range(20):\n open('f%d'%k,'w').write('x')\n for a in range(300):\n  try: os.setxattr('f%d'%k,'user.e2b.'+'n'*200+str(a),b'v'*(60000 if a==0 else 100))\n  except OSError: break"
        ))
        .await;
    attacker
        .touch_and_replace(&["/workspace/t/f0", "/workspace/t/f1"])
        .await;
    let listing = json!({"path": "/workspace/t", "depth": 1});
    let answer = attacker
        .envd("filesystem.Filesystem/ListDir", &listing)
        .await;
    assert_no_fault("ListDir", &answer);
    let packed = attacker.client.hibernate_session(&attacker.id);
    let _ = answered("hibernate", packed).await;
}

async fn leases_on_files_the_host_opens(attacker: Arc<Attacker>) {
    // Whether the lease is granted or refused, no call may wait for it.
    let holder = attacker
        .started(&format!(
            "{PLACE}import fcntl,signal,time\nsignal.signal(signal.SIGIO,signal.SIG_IGN)\nheld=[]\nfor k in range(20):\n d=os.open('f%d'%k,os.O_RDWR|os.O_CREAT); held.append(d)\n try: fcntl.fcntl(d,1024,1)\n except OSError: pass\nprint('ready',flush=True)\ntime.sleep(50)"
        ))
        .await;
    attacker
        .touch_and_replace(&["/workspace/t/f0", "/workspace/t/f1", "/workspace/t/f2"])
        .await;
    drop(holder);
}

async fn locks_on_files_the_host_opens(attacker: Arc<Attacker>) {
    let holder = attacker
        .started(&format!(
            "{PLACE}import fcntl,time\nopen('f','w').write('x'); os.chmod('f',0o2666)\nf=open('f','r+'); fcntl.flock(f,fcntl.LOCK_EX); fcntl.lockf(f,fcntl.LOCK_EX)\nprint('ready',flush=True)\ntime.sleep(50)"
        ))
        .await;
    attacker.touch_and_replace(&["/workspace/t/f"]).await;
    drop(holder);
}

async fn directory_in_place_of_files(attacker: Arc<Attacker>) {
    // Files that calls read besides the one they name.
    let _ = attacker
        .python("import os,shutil\nfor f in ('/etc/passwd','/etc/group','/etc/hosts','/etc/resolv.conf','/etc/profile'):\n try:\n  os.unlink(f)\n except OSError: pass\n try: os.makedirs(f+'/x')\n except OSError: pass")
        .await;
    attacker.touch_all("/etc/passwd").await;
    let _ = attacker.run(&["true"]).await;
    let listing = json!({"path": "/etc", "depth": 2});
    let listed = attacker.envd("filesystem.Filesystem/ListDir", &listing);
    assert_no_fault("ListDir", &listed.await);
}

async fn modes_that_deny_everything(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{PLACE}os.makedirs('d/e'); open('d/e/f','w').write('x'); os.chmod('d/e/f',0); os.chmod('d/e',0); os.chmod('d',0)\nopen('g','w').write('x'); os.chmod('g',0o7777)"
        ))
        .await;
    attacker
        .touch_and_replace(&["/workspace/t/d", "/workspace/t/d/e/f", "/workspace/t/g"])
        .await;
}

async fn deleted_workspace(attacker: Arc<Attacker>) {
    let _ = attacker
        .python("import os\nos.chdir('/')\nos.rename('/workspace','/gone')\nos.symlink('/workspace','/workspace')")
        .await;
    attacker.touch_all("/workspace").await;
    let _ = attacker.run(&["true"]).await;
    attacker.touch_all("relative").await;
}
