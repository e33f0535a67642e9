//! Account files of a session, which the host reads to find the user of a command.

use std::sync::Arc;

use sandbar_core::{ExecSpec, ProcessSpec};
use serde_json::json;

use crate::{
    attacker::{Attacker, answered, assert_no_fault, finish},
    attempt::attempts,
};

attempts! {
    passwd_of_a_hundred_megabytes,
    group_of_a_hundred_megabytes,
    passwd_of_one_line,
    passwd_malformed,
    passwd_as_special_file,
    passwd_that_grows_while_read,
    groups_without_number,
    home_and_shell_that_lead_away,
}

impl Attacker {
    /// Runs, launches and opens files as users of the session, several times at once.
    async fn act_as_users(&self) {
        for user in ["daemon", "1000", "4294967295", "0", "missing", "long"] {
            let spec = || ExecSpec {
                user: Some(user.to_owned()),
                ..ExecSpec::new(["id"])
            };
            let exec = async || {
                let command = self.client.exec(&self.id, spec());
                if let Ok(command) = answered("exec", command).await {
                    let _ = finish(command).await;
                }
            };
            let launch = ProcessSpec {
                user: Some(user.to_owned()),
                ..ProcessSpec::new(["true"])
            };
            let launched = self.client.launch_process(&self.id, launch);
            let _ = tokio::join!(exec(), exec(), answered("launch", launched));
            let target = format!("/files?path=f&username={user}");
            let answer = self.e2b("GET", &target, &[], b"").await;
            assert_no_fault("download", &answer);
            let listing = json!({"path": "~", "depth": 1});
            let answer = self.envd("filesystem.Filesystem/ListDir", &listing).await;
            assert_no_fault("ListDir", &answer);
        }
    }

    async fn with_accounts(&self, script: &str) {
        self.prepare(&format!("import os\n{script}")).await;
        self.act_as_users().await;
    }
}

async fn passwd_of_a_hundred_megabytes(attacker: Arc<Attacker>) {
    attacker
        .with_accounts("f=open('/etc/passwd','a')\nfor k in range(100): f.write(('u%d:x:1:1::/:/bin/sh\\n'%k)*50000)\nf.write('long:x:7:7::/:/bin/sh\\n')")
        .await;
}

async fn group_of_a_hundred_megabytes(attacker: Arc<Attacker>) {
    attacker
        .with_accounts("f=open('/etc/group','a')\nfor k in range(100): f.write(('g%d:x:%d:daemon,long\\n'%(k,k))*50000)")
        .await;
}

async fn passwd_of_one_line(attacker: Arc<Attacker>) {
    attacker
        .with_accounts("f=open('/etc/passwd','w')\nf.write('long:x:7:7:')\nfor k in range(100): f.write('n'*1000000)\nf.write(':/:/bin/sh')")
        .await;
}

async fn passwd_malformed(attacker: Arc<Attacker>) {
    attacker
        .with_accounts("open('/etc/passwd','wb').write(b'daemon:x:-1:99999999999999999999::/:/bin/sh\\nmissing\\n:::::::::\\nlong:x:18446744073709551616:0:\\xff\\xfe:\\0:/\\n1000:x:5:5::relative:\\n\\n\\n'*1000)\nopen('/etc/group','wb').write(os.urandom(100000))\nopen('/etc/shadow','wb').write(b'x')")
        .await;
}

async fn passwd_as_special_file(attacker: Arc<Attacker>) {
    attacker
        .with_accounts("os.unlink('/etc/passwd'); os.mkfifo('/etc/passwd')\nos.unlink('/etc/group'); os.symlink('/etc/group','/etc/group')")
        .await;
    attacker
        .with_accounts("os.unlink('/etc/passwd'); os.symlink('/dev/zero','/etc/passwd')\nos.unlink('/etc/group'); os.makedirs('/etc/group')")
        .await;
    attacker
        .with_accounts("os.unlink('/etc/passwd'); d=os.open('/etc/passwd',os.O_RDWR|os.O_CREAT); os.ftruncate(d,2**40)")
        .await;
}

async fn passwd_that_grows_while_read(attacker: Arc<Attacker>) {
    let writer = attacker
        .started("print('ready',flush=True)\nf=open('/etc/passwd','a')\nfor k in range(10**6):\n f.write('u%d:x:1:1::/:/bin/sh\\n'%k)\n if k%50000==0: f.truncate(100)")
        .await;
    attacker.act_as_users().await;
    drop(writer);
}

async fn groups_without_number(attacker: Arc<Attacker>) {
    attacker
        .with_accounts("f=open('/etc/group','w')\nfor k in range(70000): f.write('g%d:x:%d:daemon,long,root\\n'%(k,k))\nopen('/etc/passwd','a').write('long:x:7:7::/:/bin/sh\\n')")
        .await;
}

async fn home_and_shell_that_lead_away(attacker: Arc<Attacker>) {
    attacker
        .with_accounts("os.makedirs('/h'); os.symlink('/h/l','/h/l')\nopen('/etc/passwd','a').write('long:x:7:7::/h/l:/h/l\\n1000:x:1000:1000::'+'/..'*2000+':/dev/zero\\nmissing:x:8:8::/proc/1/root:/proc/1/exe\\n')")
        .await;
}
