//! Code in the box that takes whatever it can get.

use std::sync::Arc;

use sandbar_core::ExecSpec;

use crate::{
    attacker::{Attacker, answered, finish},
    attempt::attempts,
};

attempts! {
    fork_flood,
    thread_flood,
    orphan_flood,
    output_flood,
    output_taken_back_from_the_pipe,
    init_stopped,
    init_traced,
    init_limited,
    init_flooded_with_signals,
    memory_eater,
    shared_memory_eater,
    loops_in_sessions_of_their_own,
    inotify_exhaustion,
    terminal_exhaustion,
    descriptor_exhaustion,
    pipe_exhaustion,
    disk_filled_with_bytes,
    disk_filled_with_inodes,
    init_socket_attacked,
    interpreters_in_a_chain,
    kernel_objects_exhausted,
    cores_dumped,
}

impl Attacker {
    /// Lets a program work beside the probe, then ends it with its call.
    async fn beside(&self, script: &str) {
        let program = self.started(script).await;
        self.hold(8).await;
        drop(program);
        // The box still takes calls, or a new one is started, or the answer says why not.
        let _ = self.run(&["true"]).await;
    }
}

async fn fork_flood(attacker: Arc<Attacker>) {
    attacker
        .beside("import os\nprint('ready',flush=True)\nwhile 1:\n try: os.fork()\n except OSError: pass")
        .await;
}

async fn thread_flood(attacker: Arc<Attacker>) {
    attacker
        .beside("import threading,time\nprint('ready',flush=True)\nwhile 1:\n try: threading.Thread(target=time.sleep,args=(50,)).start()\n except RuntimeError: pass")
        .await;
}

async fn orphan_flood(attacker: Arc<Attacker>) {
    attacker
        .beside("import os\nprint('ready',flush=True)\nwhile 1:\n try:\n  p=os.fork()\n  if p==0:\n   os.setsid()\n   try: os.fork()\n   finally: os._exit(0)\n  os.waitpid(p,0)\n except OSError: pass")
        .await;
}

async fn output_flood(attacker: Arc<Attacker>) {
    let mut programs = Vec::new();
    for _ in 0..8 {
        programs.push(attacker.start(&["yes", "output"]).await.unwrap());
    }
    attacker.hold(8).await;
    // Read to the limit of output, which does not end the command, then leave.
    let read = tokio::time::timeout(
        std::time::Duration::from_secs(3),
        finish(programs.pop().unwrap()),
    );
    let _ = read.await;
}

async fn output_taken_back_from_the_pipe(attacker: Arc<Attacker>) {
    let script = "import os,fcntl,time\nfcntl.fcntl(1,1031,1<<20)\nr,w=os.pipe()\nif os.fork()==0:\n os.close(w); os.setsid(); d=os.open('/proc/self/fd/1',os.O_RDONLY|os.O_NONBLOCK); os.read(r,1)\n try:\n  while 1: os.read(d,1<<20)\n except OSError: pass\n time.sleep(1000)\nos.close(r); time.sleep(0.05); os.set_blocking(1,False)\ntry:\n while 1: os.write(1,bytes(1<<16))\nexcept OSError: pass\nos._exit(0)";
    for _ in 0..8 {
        let _ = attacker.run(&["python3", "-c", script]).await;
    }
}

async fn init_stopped(attacker: Arc<Attacker>) {
    let _ = attacker
        .python("import os,signal\nfor s in (signal.SIGSTOP,signal.SIGTSTP,signal.SIGKILL,signal.SIGTERM,signal.SIGSEGV,33,64):\n try: os.kill(1,s)\n except OSError: pass\n try: os.kill(-1,signal.SIGSTOP)\n except OSError: pass")
        .await;
    let _ = attacker.run(&["true"]).await;
}

async fn init_traced(attacker: Arc<Attacker>) {
    let _ = attacker
        .python("import ctypes,os\nc=ctypes.CDLL(None)\nfor request in (16,0x4206):\n for pid in (1,os.getppid()):\n  c.ptrace(request,pid,0,0); c.ptrace(0x4207,pid,0,0)\nfor n in ('mem','fd','cwd','root','environ','stack','syscall','oom_score_adj','comm','clear_refs','coredump_filter'):\n try: open('/proc/1/'+n,'r+b').write(b'1')\n except OSError: pass\nc.syscall(434,1,0)\nc.syscall(438,3,0,0)\nc.syscall(310,1,0,0,0,0,0)")
        .await;
    let _ = attacker.run(&["true"]).await;
}

async fn init_limited(attacker: Arc<Attacker>) {
    let _ = attacker
        .python("import resource\nfor k in range(16):\n for limit in ((0,0),(1,1)):\n  try: resource.prlimit(1,k,limit)\n  except (OSError,ValueError): pass")
        .await;
    for _ in 0..5 {
        let _ = attacker.run(&["true"]).await;
    }
}

async fn init_flooded_with_signals(attacker: Arc<Attacker>) {
    attacker
        .beside("import os,signal,ctypes\nprint('ready',flush=True)\nc=ctypes.CDLL(None)\nwhile 1:\n for s in (signal.SIGCHLD,signal.SIGUSR1,signal.SIGHUP,34,40,64):\n  try: os.kill(1,s)\n  except OSError: pass\n  c.sigqueue(1,s,0)")
        .await;
}

async fn memory_eater(attacker: Arc<Attacker>) {
    let eater = "import sys\nheld=[]\nprint('ready',flush=True)\nwhile 1: held.append(bytearray(b'x')*(1<<22))";
    attacker.beside(eater).await;
    for _ in 0..3 {
        let _ = attacker.python(eater).await;
    }
}

async fn shared_memory_eater(attacker: Arc<Attacker>) {
    attacker
        .beside("import os,mmap,time\nprint('ready',flush=True)\nheld=[]\nfor d in ('/dev/shm','/tmp','/run'):\n try:\n  f=open(d+'/full','wb')\n  for k in range(300): f.write(bytes(1<<20))\n except OSError: pass\ntry:\n while 1:\n  d=os.memfd_create('x'); held.append(d)\n  os.write(d,bytes(1<<22))\nexcept OSError: pass\ntime.sleep(50)")
        .await;
}

async fn loops_in_sessions_of_their_own(attacker: Arc<Attacker>) {
    attacker
        .beside("import os\nfor k in range(60):\n if os.fork()==0:\n  os.setsid()\n  while 1: pass\nprint('ready',flush=True)\nwhile 1: os.getppid()")
        .await;
}

async fn inotify_exhaustion(attacker: Arc<Attacker>) {
    let holder = attacker
        .started("import ctypes,os,time,subprocess\nc=ctypes.CDLL(None)\ncount=0\nfor k in range(200):\n d=c.inotify_init1(0)\n if d<0: break\n count+=1\n for p in ('/usr','/etc','/workspace','/proc','/tmp'): c.inotify_add_watch(d,p.encode(),0xfff)\nprint('ready',count,flush=True)\ntime.sleep(50)")
        .await;
    // The host watches for other sessions, too.
    let watch = attacker
        .client
        .watch_dir(&attacker.id, std::path::Path::new("/workspace"), true);
    let _ = answered("watch_dir", watch).await;
    attacker.hold(8).await;
    drop(holder);
}

async fn terminal_exhaustion(attacker: Arc<Attacker>) {
    attacker
        .beside("import os,time\nheld=[]\ntry:\n while len(held)<2000: held.append(os.posix_openpt(os.O_RDWR) if hasattr(os,'posix_openpt') else os.openpty())\nexcept OSError: pass\nprint('ready',flush=True)\ntime.sleep(50)")
        .await;
    let spec = ExecSpec {
        terminal: Some(sandbar_core::TerminalSize {
            rows: 65_535,
            columns: 65_535,
        }),
        ..ExecSpec::new(["true"])
    };
    if let Ok(command) = answered("exec", attacker.client.exec(&attacker.id, spec)).await {
        let _ = finish(command).await;
    }
}

async fn descriptor_exhaustion(attacker: Arc<Attacker>) {
    attacker
        .beside("import os,socket,resource,time\nresource.setrlimit(resource.RLIMIT_NOFILE,(resource.getrlimit(resource.RLIMIT_NOFILE)[1],)*2)\nfor k in range(30):\n if os.fork()==0:\n  held=[]\n  try:\n   while len(held)<20000: held.append(os.open('/dev/null',0))\n  except OSError: pass\n  time.sleep(50)\nprint('ready',flush=True)\ntime.sleep(50)")
        .await;
}

async fn pipe_exhaustion(attacker: Arc<Attacker>) {
    attacker
        .beside("import os,fcntl,socket,time\nheld=[]\ntry:\n for k in range(400):\n  r,w=os.pipe(); held+=[r,w]\n  try: fcntl.fcntl(w,1031,1<<20)\n  except OSError: pass\n  os.set_blocking(w,False)\n  try: os.write(w,bytes(1<<20))\n  except OSError: pass\nexcept OSError: pass\nprint('ready',flush=True)\ntime.sleep(50)")
        .await;
}

async fn disk_filled_with_bytes(attacker: Arc<Attacker>) {
    let _ = attacker
        .python("import os\nb=os.urandom(1<<20)\nfor k in range(4):\n try:\n  with open('/workspace/f%d'%k,'wb') as f:\n   for j in range(300): f.write(b)\n   f.flush(); os.fsync(f.fileno())\n except OSError: pass")
        .await;
    for _ in 0..3 {
        let turn = attacker.client.turn_complete(&attacker.id);
        let _ = answered("turn_complete", turn).await;
    }
    let _ = attacker.run(&["true"]).await;
    attacker.hold(3).await;
}

async fn disk_filled_with_inodes(attacker: Arc<Attacker>) {
    attacker
        .beside("import os\nprint('ready',flush=True)\nfor d in range(100):\n os.makedirs('/workspace/i/%d'%d)\n for k in range(2000):\n  try: open('/workspace/i/%d/%d'%(d,k),'w').close()\n  except OSError: pass")
        .await;
}

async fn init_socket_attacked(attacker: Arc<Attacker>) {
    // Descriptors and abstract sockets of whatever the host has left in the box.
    let _ = attacker
        .python("import os,socket\nfor p in os.listdir('/proc'):\n if not p.isdigit(): continue\n for d in range(64):\n  for mode in (os.O_RDWR|os.O_NONBLOCK,os.O_WRONLY|os.O_NONBLOCK):\n   try: f=os.open('/proc/%s/fd/%d'%(p,d),mode)\n   except OSError: continue\n   if p not in ('self',str(os.getpid())):\n    try: os.write(f,b'\\xff'*5000)\n    except OSError: pass\n   os.close(f)\ntry:\n for line in open('/proc/net/unix'):\n  path=line.split()[-1]\n  if path[0] in '@/':\n   s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\n   try: s.connect(path.replace('@','\\0')); s.send(b'\\xff'*5000)\n   except OSError: pass\nexcept OSError: pass")
        .await;
    let _ = attacker.run(&["true"]).await;
}

async fn interpreters_in_a_chain(attacker: Arc<Attacker>) {
    attacker
        .prepare("import os\nfor k in range(8):\n open('/workspace/s%d'%k,'w').write('#!/workspace/s%d\\n'%(k+1)); os.chmod('/workspace/s%d'%k,0o755)\nos.mkfifo('/workspace/s8',0o755)\nopen('/workspace/big','w').write('#!/bin/sh '+'x'*300+'\\n'); os.chmod('/workspace/big',0o755)")
        .await;
    for program in ["/workspace/s0", "/workspace/s5", "/workspace/big"] {
        let _ = attacker.run(&[program]).await;
    }
}

async fn kernel_objects_exhausted(attacker: Arc<Attacker>) {
    attacker
        .beside("import ctypes,os,socket,time\nc=ctypes.CDLL(None)\nfor k in range(3000):\n c.syscall(29,k,4096,0o1666)\n c.syscall(64,k,250,0o1666)\n c.syscall(68,k,0o1666)\n c.syscall(248,b'user',b'k%d'%k,b'x'*2000,2000,-4)\n c.syscall(283,1,0)\n c.syscall(290,0,0)\n c.syscall(291,0)\nheld=[]\ntry:\n for k in range(500):\n  a,b=socket.socketpair(); held+=[a,b]\n  a.setblocking(False)\n  socket.send_fds(a,[b'x'],[b.fileno()]*50)\nexcept OSError: pass\nprint('ready',flush=True)\ntime.sleep(50)")
        .await;
}

async fn cores_dumped(attacker: Arc<Attacker>) {
    attacker
        .beside("import os,resource,signal\nresource.setrlimit(resource.RLIMIT_CORE,(resource.getrlimit(resource.RLIMIT_CORE)[1],)*2)\nprint('ready',flush=True)\nb=bytearray(30<<20)\nwhile 1:\n try:\n  p=os.fork()\n  if p==0: os.kill(os.getpid(),signal.SIGSEGV); os._exit(0)\n  os.waitpid(p,0)\n except OSError: pass")
        .await;
}
