//! The egress gateway and ingress, from the box.

use std::sync::Arc;

use crate::{
    attacker::{Attacker, assert_no_fault},
    attempt::attempts,
    http,
};

attempts! {
    dials_to_a_closed_port,
    dials_to_a_silent_server,
    dials_by_denied_names,
    dials_to_denied_addresses,
    proxy_heads_never_finished,
    proxy_heads_of_great_length,
    proxy_bodies_never_finished,
    hellos_never_finished,
    dns_flood,
    dns_of_denied_names,
    dns_of_malformed_messages,
    dns_by_tcp_never_finished,
    echo_never_read,
    udp_flood,
    ingress_never_read,
    ingress_that_never_answers,
    loopback_flood,
}

/// Address of the proxy in a box with an open network.
const PROXY: &str = "('192.0.0.1',3128)";

/// Opens connections in several processes and writes to them; `body` has the socket `s` and a
/// counter `k`. Sockets are kept open.
fn connections(count: usize, to: &str, body: &str) -> String {
    format!(
        "import os,socket,time\nprint('ready',flush=True)\nfor p in range(4):\n if os.fork()==0:\n  held=[]\n  for k in range({count}):\n   try:\n    s=socket.create_connection({to},3); held.append(s)\n    s.settimeout(0.5)\n    {body}\n   except OSError: pass\n  time.sleep(40); os._exit(0)\nfor p in range(4): os.wait()"
    )
}

impl Attacker {
    /// Lets a program work beside the probe for some rounds, then ends it.
    async fn flood_network(&self, script: &str) {
        let program = self.started(script).await;
        self.hold(12).await;
        drop(program);
    }

    fn silent(&self) -> u16 {
        self.ports.unwrap().silent
    }
}

async fn dials_to_a_closed_port(attacker: Arc<Attacker>) {
    let closed = attacker.ports.unwrap().closed;
    let ask = format!(
        "s.sendall(b'CONNECT ok.example:{closed} HTTP/1.1\\r\\nhost: ok.example\\r\\n\\r\\n'); s.recv(100)"
    );
    attacker.flood_network(&connections(300, PROXY, &ask)).await;
}

async fn dials_to_a_silent_server(attacker: Arc<Attacker>) {
    let ask = format!(
        "s.sendall(b'CONNECT ok.example:{} HTTP/1.1\\r\\nhost: ok.example\\r\\n\\r\\n'); s.recv(100); s.setblocking(False); s.send(bytes(100000))",
        attacker.silent()
    );
    attacker.flood_network(&connections(150, PROXY, &ask)).await;
}

async fn dials_by_denied_names(attacker: Arc<Attacker>) {
    let ask = "s.sendall(b'CONNECT n%d.denied.example:443 HTTP/1.1\\r\\n\\r\\n'%k); s.recv(100); s.close()";
    attacker.flood_network(&connections(2000, PROXY, ask)).await;
}

async fn dials_to_denied_addresses(attacker: Arc<Attacker>) {
    let to = "('203.0.113.%d'%(k%250),1+k%60000)";
    attacker
        .flood_network(&connections(
            2000,
            to,
            "s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); s.close()",
        ))
        .await;
}

async fn proxy_heads_never_finished(attacker: Arc<Attacker>) {
    attacker
        .flood_network(&connections(
            300,
            PROXY,
            "s.sendall(b'GET http://ok.example/ HTTP/1.1\\r\\nx: '+b'a'*k)",
        ))
        .await;
}

async fn proxy_heads_of_great_length(attacker: Arc<Attacker>) {
    attacker
        .flood_network(&connections(
            60,
            PROXY,
            "s.sendall(b'GET http://ok.example/ HTTP/1.1\\r\\n'+b'x: y\\r\\n'*200000+b'a'*3000000)",
        ))
        .await;
}

async fn proxy_bodies_never_finished(attacker: Arc<Attacker>) {
    let ask = format!(
        "s.sendall(b'POST http://ok.example:{}/ HTTP/1.1\\r\\nhost: ok.example\\r\\ntransfer-encoding: chunked\\r\\n\\r\\nffffffff\\r\\n'); s.setblocking(False); s.send(bytes(500000))",
        attacker.silent()
    );
    attacker.flood_network(&connections(120, PROXY, &ask)).await;
}

async fn hellos_never_finished(attacker: Arc<Attacker>) {
    attacker
        .flood_network(&connections(
            200,
            "('203.0.113.9',443)",
            "s.sendall(b'\\x16\\x03\\x01\\x40\\x00\\x01\\x00\\x3f\\xfc'+b'\\x03'*k)",
        ))
        .await;
}

async fn dns_flood(attacker: Arc<Attacker>) {
    attacker
        .flood_network("import os,socket,struct\nprint('ready',flush=True)\nfor p in range(4):\n if os.fork()==0:\n  s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.setblocking(False)\n  for k in range(60000):\n   q=struct.pack('>6H',k&65535,256,1,0,0,0)+b'\\2ok\\7example\\0\\0\\1\\0\\1'\n   try: s.sendto(q,('192.0.0.1',53))\n   except OSError: pass\n  os._exit(0)\nfor p in range(4): os.wait()")
        .await;
}

async fn dns_of_denied_names(attacker: Arc<Attacker>) {
    attacker
        .flood_network("import os,socket,struct\nprint('ready',flush=True)\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.setblocking(False)\nfor k in range(60000):\n n=b'%08d'%k\n q=struct.pack('>6H',k&65535,256,1,0,0,0)+b'\\x08'+n+b'\\6denied\\7example\\0'+struct.pack('>2H',k%300,1)\n try: s.sendto(q,('8.8.8.8',53))\n except OSError: pass")
        .await;
}

async fn dns_of_malformed_messages(attacker: Arc<Attacker>) {
    attacker
        .flood_network("import os,socket,struct\nprint('ready',flush=True)\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.setblocking(False)\nfor k in range(20000):\n head=struct.pack('>6H',k&65535,k&65535,1,k%7,65535,65535)\n for q in (head+b'\\xc0\\x0c\\0\\1\\0\\1',head+b'\\xff'*200,head[:k%12],head+b'\\x3f'+b'a'*300,head+b'\\1a'*120+b'\\0\\0\\1\\0\\1',os.urandom(100)):\n  try: s.sendto(q,('192.0.0.1',53))\n  except OSError: pass")
        .await;
}

async fn dns_by_tcp_never_finished(attacker: Arc<Attacker>) {
    attacker
        .flood_network(&connections(
            200,
            "('192.0.0.1',53)",
            "s.sendall(b'\\xff\\xff'+b'x'*k)",
        ))
        .await;
}

async fn echo_never_read(attacker: Arc<Attacker>) {
    let echo = attacker.ports.unwrap().echo;
    let ask = format!(
        "s.sendall(b'CONNECT ok.example:{echo} HTTP/1.1\\r\\nhost: ok.example\\r\\n\\r\\n'); s.recv(100); s.setblocking(False)\n    for j in range(100): s.send(bytes(100000))"
    );
    attacker.flood_network(&connections(60, PROXY, &ask)).await;
}

async fn udp_flood(attacker: Arc<Attacker>) {
    attacker
        .flood_network("import socket\nprint('ready',flush=True)\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.setblocking(False)\nfor k in range(200000):\n try: s.sendto(bytes(1400),('203.0.113.%d'%(k%250),1+k%65000))\n except OSError: pass")
        .await;
}

async fn ingress_never_read(attacker: Arc<Attacker>) {
    let server = attacker
        .started("import socket,threading\nl=socket.socket()\nl.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\nl.bind(('0.0.0.0',8080)); l.listen(64)\nprint('ready',flush=True)\ndef serve(s):\n try:\n  s.recv(4000)\n  s.sendall(b'HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n')\n  while 1: s.sendall(b'10000\\r\\n'+bytes(65536)+b'\\r\\n')\n except OSError: pass\nwhile 1:\n s=l.accept()[0]\n try: threading.Thread(target=serve,args=(s,),daemon=True).start()\n except RuntimeError: s.close()")
        .await;
    let request = to_port(&attacker);
    let mut kept = Vec::new();
    for _ in 0..100 {
        kept.extend(http::send(attacker.address, request.as_bytes()).await.ok());
    }
    attacker.hold(8).await;
    drop(server);
}

async fn ingress_that_never_answers(attacker: Arc<Attacker>) {
    let server = attacker
        .started("import socket,time\nl=socket.socket()\nl.bind(('0.0.0.0',8080)); l.listen(4)\nprint('ready',flush=True)\ntime.sleep(50)")
        .await;
    let request = to_port(&attacker);
    let mut kept = Vec::new();
    for _ in 0..300 {
        kept.extend(http::send(attacker.address, request.as_bytes()).await.ok());
    }
    attacker.hold(8).await;
    drop(kept);
    // A server whose head never ends.
    drop(server);
    let server = attacker
        .started("import socket\nl=socket.socket()\nl.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\nl.bind(('0.0.0.0',8080)); l.listen(4)\nprint('ready',flush=True)\ns=l.accept()[0]\ntry:\n s.sendall(b'HTTP/1.1 200 OK\\r\\n')\n while 1: s.sendall(b'x: '+b'y'*60000+b'\\r\\n')\nexcept OSError: pass\nl.close()")
        .await;
    let stream = http::send(attacker.address, request.as_bytes())
        .await
        .unwrap();
    assert_no_fault("request to a port", &http::read(stream).await);
    drop(server);
}

async fn loopback_flood(attacker: Arc<Attacker>) {
    attacker
        .flood_network(&connections(3000, "('127.0.0.1',1+k)", "s.close()"))
        .await;
}

/// Returns a request for port 8080 of the box.
fn to_port(attacker: &Attacker) -> String {
    format!(
        "GET / HTTP/1.1\r\nhost: 8080-{}.localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        attacker.id, attacker.token
    )
}
