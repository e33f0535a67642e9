//! Talking with processes that run already.

use std::pin::Pin;

use sandbar_core::{
    AttachEvent, ErrorCode, LogStream, ProcessId, ProcessSpec, Replay, StdinMode, TerminalSize,
};
use sandbar_host::Attachment;

use crate::{
    fixture::HostFixture,
    processes::{log, script},
};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Waits until `text` was written, whatever comes with it.
async fn see(attachment: &mut Attachment, text: &str) {
    let mut said = String::new();
    while !said.contains(text) {
        match attachment.next_event().await {
            Some(AttachEvent::Stdout(bytes)) => said.push_str(&String::from_utf8_lossy(&bytes)),
            other => panic!("{other:?} after {said:?}"),
        }
    }
}

/// All that comes until `text` is the end of it.
async fn until(attachment: &mut Attachment, text: &str) -> String {
    let mut said = String::new();
    while !said.ends_with(text) {
        match attachment.next_event().await {
            Some(AttachEvent::Stdout(bytes) | AttachEvent::Stderr(bytes)) => {
                said.push_str(std::str::from_utf8(&bytes).unwrap());
            }
            other => panic!("{other:?} after {said:?}"),
        }
    }
    said
}

pub(crate) fn attachments_read_write_and_leave_a_process_running(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let echo = "echo before; while read line; do echo \"got $line\"; done; echo over; exit 3";
        let spec = ProcessSpec {
            stdin: StdinMode::Piped,
            ready: log("before"),
            ..script(echo)
        };
        let process = fixture.launch(&id, spec).await;
        fixture.ready(&id, &process).await;
        let mut one = fixture
            .host
            .attach_process(&id, &process, Replay::All)
            .await
            .unwrap();
        let mut other = fixture
            .host
            .attach_process(&id, &process, Replay::None)
            .await
            .unwrap();
        let mut tail = fixture
            .host
            .attach_process(&id, &process, Replay::Tail)
            .await
            .unwrap();
        assert_eq!(one.process().id, process);
        assert!(!one.has_terminal());
        one.stdin().unwrap().write("hello\n".into()).await.unwrap();
        assert_eq!(until(&mut one, "got hello\n").await, "before\ngot hello\n");
        assert_eq!(until(&mut other, "got hello\n").await, "got hello\n");
        assert_eq!(until(&mut tail, "got hello\n").await, "before\ngot hello\n");
        // A dropped attachment changes nothing for the others.
        drop(one);
        other
            .stdin()
            .unwrap()
            .write("again\n".into())
            .await
            .unwrap();
        assert_eq!(until(&mut tail, "got again\n").await, "got again\n");
        other.stdin().unwrap().close();
        assert_eq!(until(&mut other, "over\n").await, "got again\nover\n");
        let Some(AttachEvent::Exited(exit)) = other.next_event().await else {
            panic!("it did not end")
        };
        assert_eq!((exit.code, exit.reason), (Some(3), None));
        assert_eq!(other.next_event().await, None);
        // An attachment after the exit gets it as well.
        let mut late = fixture
            .host
            .attach_process(&id, &process, Replay::None)
            .await
            .unwrap();
        assert!(
            matches!(late.next_event().await, Some(AttachEvent::Exited(exit)) if exit.code == Some(3))
        );
        let missing = ProcessId::new("missing").unwrap();
        let error = fixture
            .host
            .attach_process(&id, &missing, Replay::None)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::ProcessNotFound);
    })
}

pub(crate) fn attachments_share_a_terminal(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let size = TerminalSize {
            rows: 24,
            columns: 80,
        };
        let spec = ProcessSpec {
            stdin: StdinMode::Piped,
            terminal: Some(size),
            ..script("stty -echo; echo up; exec sh")
        };
        let process = fixture.launch(&id, spec).await;
        let mut attached = fixture
            .host
            .attach_process(&id, &process, Replay::All)
            .await
            .unwrap();
        assert!(attached.has_terminal());
        see(&mut attached, "up\r\n").await;
        fixture
            .host
            .resize_process(
                &id,
                &process,
                TerminalSize {
                    rows: 11,
                    columns: 33,
                },
            )
            .await
            .unwrap();
        let stdin = attached.stdin().unwrap();
        stdin.write("PS1=; stty size\n".into()).await.unwrap();
        see(&mut attached, "11 33\r\n").await;
        stdin.write("exit 4\n".into()).await.unwrap();
        loop {
            match attached.next_event().await.unwrap() {
                AttachEvent::Exited(exit) => break assert_eq!(exit.code, Some(4)),
                AttachEvent::Stdout(_) => {}
                other => panic!("{other:?}"),
            }
        }
    })
}

pub(crate) fn slow_attachment_learns_what_it_missed(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let flood = "head -c 3000000 /dev/zero; echo; echo last >&2";
        let process = fixture
            .launch(
                &id,
                ProcessSpec {
                    stdin: StdinMode::Piped,
                    ..script(&format!("read go; {flood}"))
                },
            )
            .await;
        let mut slow = fixture
            .host
            .attach_process(&id, &process, Replay::None)
            .await
            .unwrap();
        slow.stdin().unwrap().write("\n".into()).await.unwrap();
        fixture.exited(&id, &process).await;
        let (mut missed, mut told) = (0, 0);
        let exit = loop {
            match slow.next_event().await.unwrap() {
                AttachEvent::Missed { stream, bytes } => {
                    assert_eq!(stream, LogStream::Stdout);
                    missed += bytes;
                }
                AttachEvent::Stdout(bytes) => told += bytes.len() as u64,
                AttachEvent::Stderr(bytes) => assert_eq!(bytes, "last\n"),
                AttachEvent::Exited(exit) => break exit,
            }
        };
        assert_eq!(missed + told, 3_000_001);
        assert!(missed > 0 && told > 0);
        assert_eq!(exit.code, Some(0));
    })
}
