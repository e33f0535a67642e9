//! Ignore files, globs and regular expressions that are expensive to compile or to match.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{attacker::Attacker, attempt::attempts};

attempts! {
    braces_deep_in_gitignore,
    braces_deep_in_every_rule_file,
    classes_giant_in_ignore_file,
    rules_hard_linked_at_every_level,
    rules_in_many_directories,
    stars_many_in_one_pattern,
    rules_as_special_files,
    rules_that_grow_while_read,
    rules_of_invalid_text,
    rules_in_parents_of_the_searched_directory,
    rules_of_git_info_exclude,
    glob_parameter_of_deep_braces,
    glob_parameter_of_many_alternatives,
    include_and_exclude_bombs,
    regex_of_nested_repetitions,
    regex_of_nested_groups,
    regex_over_one_long_line,
    matches_without_end,
    file_that_shrinks_while_searched,
}

const HERE: &str = "import os\nb='/workspace/t'\nos.makedirs(b,exist_ok=True)\nos.chdir(b)\nopen('a.txt','w').write('needle\\n')\n";

impl Attacker {
    /// Prepares `/workspace/t`, then searches it with both tools, several times at once.
    async fn search_after(&self, script: &str) {
        self.prepare(&format!("{HERE}{script}")).await;
        self.search("/workspace/t").await;
    }

    async fn search(&self, path: &str) {
        let glob = json!({"pattern": "**/*.zzz", "path": path});
        let grep = json!({"pattern": "needle", "path": path});
        let _ = tokio::join!(
            self.tool("glob", glob.clone()),
            self.tool("grep", grep.clone()),
            self.tool("glob", glob),
            self.tool("grep", grep),
        );
    }

    async fn call(&self, tool: &str, params: Value) {
        let _ = self.tool(tool, params).await;
    }
}

async fn braces_deep_in_gitignore(attacker: Arc<Attacker>) {
    attacker
        .search_after("open('.gitignore','w').write('{'*15000+'a'+'}'*15000+'\\n')")
        .await;
}

async fn braces_deep_in_every_rule_file(attacker: Arc<Attacker>) {
    attacker
        .search_after(
            "for f in ('.gitignore','.ignore','.rgignore'):\n open(f,'w').write(('{a,'*9+'b'+'}'*9+'\\n')*3000)",
        )
        .await;
}

async fn classes_giant_in_ignore_file(attacker: Arc<Attacker>) {
    attacker
        .search_after(
            "c='['+''.join(chr(x) for x in range(0x4e00,0x9e00) if x%2)+']'\nopen('.ignore','w').write((c+'\\n')*20)\nopen('.rgignore','w').write('[!'+'a-z'*300+']*\\n'*60)",
        )
        .await;
}

async fn rules_hard_linked_at_every_level(attacker: Arc<Attacker>) {
    attacker
        .search_after(
            "open('src','w').write(''.join('*%x*\\n'%i for i in range(8000)))\np='.'\nfor k in range(40):\n p+='/zz'; os.makedirs(p)\n for f in ('.gitignore','.ignore','.rgignore'): os.link('src',p+'/'+f)",
        )
        .await;
}

async fn rules_in_many_directories(attacker: Arc<Attacker>) {
    attacker
        .search_after(
            "open('src','w').write(''.join('*%x*\\n'%i for i in range(1900)))\nfor k in range(600):\n os.makedirs('d%d'%k)\n for f in ('.gitignore','.ignore','.rgignore'): os.link('src','d%d/%s'%(k,f))\n open('d%d/x.txt'%k,'w').write('needle')",
        )
        .await;
}

async fn stars_many_in_one_pattern(attacker: Arc<Attacker>) {
    attacker
        .search_after(
            "open('.ignore','w').write(('*a'*400+'b\\n'+'**/a/'*150+'c\\n')*20)\nfor k in range(300): open('a'*200+'%d'%k,'w').write('needle')",
        )
        .await;
}

async fn rules_as_special_files(attacker: Arc<Attacker>) {
    attacker
        .search_after(
            "os.mkfifo('.gitignore')\nos.symlink('/dev/zero','.ignore')\nos.makedirs('.rgignore')\nfor d in ('one','two'):\n os.makedirs(d)\n os.symlink('/proc/self/mem',d+'/.ignore')\n os.symlink('.rgignore',d+'/.rgignore')",
        )
        .await;
}

async fn rules_that_grow_while_read(attacker: Arc<Attacker>) {
    let writer = attacker
        .started(&format!(
            "{HERE}print('ready',flush=True)\nf=open('.ignore','a')\nfor k in range(200000):\n f.write('*%x*\\n'%k)\n if k%100==0: f.flush()\n if k%20000==19999: f.truncate(0)"
        ))
        .await;
    for _ in 0..4 {
        attacker.search("/workspace/t").await;
    }
    drop(writer);
}

async fn rules_of_invalid_text(attacker: Arc<Attacker>) {
    attacker
        .search_after(
            "open('.gitignore','wb').write(bytes(range(256))*200)\nopen('.ignore','wb').write(b'\\xff[\\xfe-\\xfd]\\n\\\\\\n'*2000)\nopen('.rgignore','wb').write(b'\\0'*60000+b'[z-a]\\n[\\n{\\n}\\n[^]\\n'*100)",
        )
        .await;
}

async fn rules_in_parents_of_the_searched_directory(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{HERE}open('src','w').write(''.join('*%x*\\n'%i for i in range(1900)))\np='.'\nfor k in range(200):\n p+='/p'; os.makedirs(p)\n for f in ('.gitignore','.ignore','.rgignore'): os.link('src',p+'/'+f)"
        ))
        .await;
    let path = format!("/workspace/t{}", "/p".repeat(200));
    attacker.search(&path).await;
}

async fn rules_of_git_info_exclude(attacker: Arc<Attacker>) {
    attacker
        .search_after(
            "for k in range(100):\n os.makedirs('r%d/.git/info'%k)\n open('r%d/.git/info/exclude'%k,'w').write('{'*200+'*x*\\n'*30000)\nos.makedirs('s/.git'); os.mkfifo('s/.git/info')\nopen('f','w').write('gitdir: ../../../../dev/zero'); os.makedirs('g'); os.link('f','g/.git')",
        )
        .await;
}

async fn glob_parameter_of_deep_braces(attacker: Arc<Attacker>) {
    attacker.prepare(HERE).await;
    for pattern in ["{".repeat(30_000), "{a,".repeat(300) + &"}".repeat(300)] {
        attacker
            .call("glob", json!({"pattern": pattern, "path": "/workspace/t"}))
            .await;
    }
}

async fn glob_parameter_of_many_alternatives(attacker: Arc<Attacker>) {
    attacker.prepare(HERE).await;
    for pattern in [
        "{a,b}".repeat(200),
        "{a,{b,{c,{d,{e,{f,{g,h}}}}}}}".repeat(30),
        "[a-z]*".repeat(160),
        "**/".repeat(300),
    ] {
        attacker
            .call("glob", json!({"pattern": pattern, "path": "/workspace/t"}))
            .await;
    }
}

async fn include_and_exclude_bombs(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{HERE}for k in range(2000): open('f%d.txt'%k,'w').write('needle')"
        ))
        .await;
    for bomb in ["{a,b}".repeat(200), "{".repeat(1000), "*a".repeat(500)] {
        let many = vec![bomb.clone(); 200].join(",");
        for bomb in [bomb, many] {
            attacker
                .call(
                    "grep",
                    json!({"pattern": "needle", "path": "/workspace/t", "include": bomb, "exclude": bomb}),
                )
                .await;
        }
    }
}

async fn regex_of_nested_repetitions(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!("{HERE}open('b.txt','w').write('a'*100000)"))
        .await;
    for pattern in [
        "((a{1000}){1000}){1000}",
        r"\pL{1000}",
        r"[\w--\d]{5000}",
        "(a*)*b",
        "(?i)(\\w{50}\\W{50}){40}",
    ] {
        attacker
            .call(
                "grep",
                json!({"pattern": pattern, "path": "/workspace/t", "ignore_case": true}),
            )
            .await;
    }
}

async fn regex_of_nested_groups(attacker: Arc<Attacker>) {
    attacker.prepare(HERE).await;
    for pattern in [
        "(".repeat(2000) + &")".repeat(2000),
        "[".repeat(4000),
        "(a|".repeat(1300) + "b" + &")".repeat(100),
        "(?x)".repeat(1000),
        "x".repeat(1 << 20),
    ] {
        attacker
            .call("grep", json!({"pattern": pattern, "path": "/workspace/t"}))
            .await;
    }
}

async fn regex_over_one_long_line(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{HERE}f=open('long.txt','w')\nfor k in range(150): f.write('ab'*500000)\nf.write('needle')"
        ))
        .await;
    attacker
        .call(
            "grep",
            json!({"pattern": ".*needle", "path": "/workspace/t", "context_lines": 1000}),
        )
        .await;
    attacker
        .call(
            "read_file",
            json!({"path": "/workspace/t/long.txt", "limit": 4_000_000_000_u32}),
        )
        .await;
}

async fn matches_without_end(attacker: Arc<Attacker>) {
    attacker
        .prepare(&format!(
            "{HERE}for k in range(40): open('f%d'%k,'w').write('needle needle\\n'*100000)"
        ))
        .await;
    for (most, context) in [(4_294_967_295_u64, 4_294_967_295_u64), (100, 1_000_000)] {
        attacker
            .call(
                "grep",
                json!({"pattern": "", "path": "/workspace/t", "max_results": most, "context_lines": context}),
            )
            .await;
    }
}

async fn file_that_shrinks_while_searched(attacker: Arc<Attacker>) {
    let writer = attacker
        .started(&format!(
            "{HERE}print('ready',flush=True)\nd=os.open('big',os.O_RDWR|os.O_CREAT)\nb=b'hay\\n'*250000\nfor k in range(100000):\n os.pwrite(d,b,0); os.ftruncate(d,0)"
        ))
        .await;
    for _ in 0..5 {
        attacker.search("/workspace/t").await;
    }
    drop(writer);
}
