use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::json;

use crate::volume::Volume;

/// Opening a pipe would wait for ever, and opening a device may have any effect.
pub(crate) fn pipes_and_devices_are_not_opened(volume: &Volume) {
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, volume.path("pipe"), FileType::Fifo, mode, 0).unwrap();
    mknodat(
        CWD,
        volume.path("zero"),
        FileType::CharacterDevice,
        mode,
        makedev(1, 5),
    )
    .unwrap();
    mknodat(
        CWD,
        volume.path("disk"),
        FileType::BlockDevice,
        mode,
        makedev(7, 250),
    )
    .unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(volume.path("socket")).ok();
    for path in ["pipe", "zero", "disk"] {
        for (tool, params) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            (
                "edit_file",
                json!({"path": path, "old_string": "a", "new_string": "b"}),
            ),
            ("grep", json!({"path": path, "pattern": "."})),
        ] {
            let answer = volume.run(tool, params);
            assert!(
                answer.is_error && answer.content.contains("not a regular file"),
                "{tool} {path}: {}",
                answer.content
            );
        }
    }
    std::fs::rename(volume.path("pipe"), volume.path(".gitignore")).unwrap();
    std::fs::rename(volume.path("zero"), volume.path(".ignore")).unwrap();
    assert_eq!(
        volume.run("grep", json!({"pattern": "."})).content,
        "[no matches]"
    );
    let listed = volume.run("list_dir", json!({})).content;
    assert!(
        listed.contains("fifo ")
            && listed.contains("char-device ")
            && listed.contains("block-device "),
        "{listed}"
    );
}
