//! Repositories whose configuration names programs, and whose content is not what git expects.
//!
//! Whatever such a program does, it does in the box: none of them may write a file of the host, and
//! no call may wait for one for ever.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::timeout;

use crate::{attacker::Attacker, attempt::attempts};

attempts! {
    fsmonitor_and_hooks,
    textconv_and_filters,
    pager_editor_and_aliases,
    programs_that_never_end,
    urls_that_run_programs,
    gitdir_that_leads_away,
    index_of_noise,
    references_without_number,
    diff_without_end,
    configuration_of_great_length,
}

/// Time after which the attacker cancels a tool.
const TOOL_TIMEOUT: Duration = Duration::from_millis(700);

const REPOSITORY: &str = "import os,subprocess\nos.makedirs('/workspace/r'); os.chdir('/workspace/r')\ndef git(*a): subprocess.run(('git','-c','user.name=a','-c','user.email=a@b')+a,check=True,capture_output=True)\ngit('init','-q'); open('f','w').write('x'); git('add','f'); git('commit','-qm','one'); open('f','w').write('y')\ndef config(k,v): git('config',k,v)\n";

impl Attacker {
    /// Prepares a repository, then calls every git tool on it.
    async fn work_in(&self, script: &str) {
        // A program that would write a file of the host, were it to run there.
        let program = format!(
            "open('/workspace/evil','w').write('#!/bin/sh\\necho ran >>/workspace/ran\\necho ran >{}\\ncat\\n'); os.chmod('/workspace/evil',0o755)\n",
            self.target.display()
        );
        self.prepare(&format!("{REPOSITORY}{program}{script}"))
            .await;
        for (tool, params) in [
            ("git_status", json!({})),
            ("git_diff", json!({})),
            ("git_log", json!({})),
            ("git_show", json!({})),
            ("git_add", json!({"paths": ["f"]})),
            ("git_commit", json!({"message": "two"})),
            ("git_fetch", json!({})),
            ("git_pull", json!({})),
            ("git_push", json!({})),
            ("grep", json!({"pattern": "x"})),
            ("glob", json!({"pattern": "**"})),
        ] {
            let mut params = params;
            let key = if tool.starts_with("git") {
                "cwd"
            } else {
                "path"
            };
            params[key] = json!("/workspace/r");
            let call = self.tool(tool, params);
            // A tool whose program never ends is cancelled.
            let _ = timeout(TOOL_TIMEOUT, call).await;
        }
    }
}

async fn fsmonitor_and_hooks(attacker: Arc<Attacker>) {
    attacker
        .work_in("config('core.fsmonitor','/workspace/evil')\nconfig('core.hooksPath','/workspace/h')\nos.makedirs('/workspace/h')\nfor h in ('pre-commit','post-checkout','post-index-change','post-commit','pre-push','reference-transaction','post-merge'): os.link('/workspace/evil','/workspace/h/'+h)")
        .await;
}

async fn textconv_and_filters(attacker: Arc<Attacker>) {
    attacker
        .work_in("open('.gitattributes','w').write('* diff=evil filter=evil merge=evil\\n')\nfor k in ('diff.evil.textconv','diff.evil.command','filter.evil.clean','filter.evil.smudge','filter.evil.process','merge.evil.driver','diff.external','core.gitProxy','core.sshCommand'): config(k,'/workspace/evil')")
        .await;
}

async fn pager_editor_and_aliases(attacker: Arc<Attacker>) {
    attacker
        .work_in("for k in ('core.pager','core.editor','sequence.editor','core.askPass','gpg.program','credential.helper','interactive.diffFilter','pager.log','pager.diff','pager.status','uploadpack.packObjectsHook'): config(k,'/workspace/evil')\nfor a in ('status','diff','log','show','commit'): config('alias.'+a,'!/workspace/evil')\nconfig('commit.gpgSign','true')")
        .await;
}

async fn programs_that_never_end(attacker: Arc<Attacker>) {
    attacker
        .work_in("open('/workspace/evil','w').write('#!/bin/sh\\ntrap \"\" TERM INT HUP\\nsetsid sleep 1000 &\\nyes\\n')\nfor k in ('core.fsmonitor','diff.external','core.pager','core.editor'): config(k,'/workspace/evil')")
        .await;
}

async fn urls_that_run_programs(attacker: Arc<Attacker>) {
    attacker
        .work_in("config('protocol.ext.allow','always')\nconfig('remote.origin.url','ext::/workspace/evil')\nconfig('remote.origin.uploadpack','/workspace/evil')\nopen('.gitmodules','w').write('[submodule \"a\"]\\n path=../../a\\n url=ext::/workspace/evil\\n update=!/workspace/evil\\n')\nconfig('submodule.recurse','true')")
        .await;
    for url in [
        "ext::/workspace/evil",
        "file:///proc/1/root",
        "-u/workspace/evil",
        "http://127.0.0.1:1/",
        "/workspace/r",
    ] {
        let call = attacker.tool(
            "git_clone",
            json!({"url": url, "path": "/workspace/cloned"}),
        );
        let _ = timeout(TOOL_TIMEOUT, call).await;
    }
}

async fn gitdir_that_leads_away(attacker: Arc<Attacker>) {
    attacker
        .work_in("os.rename('.git','/workspace/g')\nopen('.git','w').write('gitdir: /workspace/g\\n')\nopen('/workspace/g/commondir','w').write('../../../../proc/self/root\\n')\nos.makedirs('/workspace/g/objects/info',exist_ok=True)\nopen('/workspace/g/objects/info/alternates','w').write('/proc/self/fd\\n'*50000)")
        .await;
}

async fn index_of_noise(attacker: Arc<Attacker>) {
    attacker
        .work_in("open('.git/index','wb').write(b'DIRC\\0\\0\\0\\2\\xff\\xff\\xff\\xff'+os.urandom(3000000))\nos.unlink('.git/HEAD'); os.mkfifo('.git/HEAD')")
        .await;
}

async fn references_without_number(attacker: Arc<Attacker>) {
    attacker
        .work_in("h=subprocess.check_output(('git','rev-parse','HEAD')).decode().strip()\nopen('.git/packed-refs','w').write(''.join('%s refs/heads/%s-%d\\n'%(h,'n'*150,k) for k in range(60000)))")
        .await;
}

async fn diff_without_end(attacker: Arc<Attacker>) {
    attacker
        .work_in("open('big','w').write('\\n'.join(map(str,range(1200000)))); git('add','big'); git('commit','-qm','big'); open('big','w').write('\\n'.join(map(str,range(1200000,0,-1))))\nopen('line','w').write('z'*9000000)")
        .await;
}

async fn configuration_of_great_length(attacker: Arc<Attacker>) {
    attacker
        .work_in("f=open('.git/config','a')\nf.write('[include]\\n path=config\\n'*300)\nfor k in range(50000): f.write('[a \"%d\"]\\n b=%s\\n'%(k,'v'*80))\nf.close()\nos.makedirs('.git/info',exist_ok=True)\nopen('.git/info/attributes','w').write('*.x -text\\n'*300000)")
        .await;
}
