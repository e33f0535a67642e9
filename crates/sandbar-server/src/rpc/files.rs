//! Files and directory trees.

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use connectrpc::{
    ConnectError, HasMessageView, InboundStream, Response, ServiceResult, ServiceStream,
};
use futures::{StreamExt as _, stream};
use sandbar_core::{Error, MakeDirOptions, SessionId, WriteOptions};
use sandbar_proto::{
    unpack_path,
    v1::{self, import_tree_request, read_file_response, write_file_request},
};
use tokio::io::AsyncReadExt as _;

use super::{
    batches::batches,
    errors::{failed, failed_in},
    service::Service,
};

/// Bytes of file content in one message.
const CHUNK_BYTES: usize = 256 << 10;

pub(super) async fn read_file(
    service: &Service,
    request: v1::ReadFileRequest,
) -> ServiceResult<ServiceStream<v1::ReadFileResponse>> {
    let (id, path) = address(request.session_id, request.path, request.path_bytes)?;
    let (file, stat) = service
        .host
        .open_file(&id, &path)
        .await
        .map_err(failed_in(&id))?;
    let file = tokio::fs::File::from_std(file);
    let content = stream::try_unfold(file, move |mut file| {
        let fail = failed_in(&id);
        async move {
            let mut buffer = BytesMut::with_capacity(CHUNK_BYTES);
            let read = file.read_buf(&mut buffer).await;
            match read.map_err(|error| fail(Error::io("read the file", error)))? {
                0 => Ok(None),
                _ => Ok(Some((
                    file_part(read_file_response::Part::Data(buffer.freeze())),
                    file,
                ))),
            }
        }
    });
    let head = stream::iter([Ok(file_part(v1::FileStat::from(stat)))]);
    Ok(Response::new(Box::pin(head.chain(content))))
}

pub(super) async fn write_file(
    service: &Service,
    mut requests: InboundStream<v1::WriteFileRequest>,
) -> ServiceResult<v1::WriteFileResponse> {
    use write_file_request::Part;
    let Some(Part::Start(start)) = next_part(&mut requests, |message| message.part).await? else {
        return Err(out_of_order("first message is not `start`"));
    };
    let options = WriteOptions {
        mode: checked_mode(start.mode)?,
        create_dirs: start.create_dirs,
        owner: owner(start.owner.into_option()),
    };
    let (id, path) = address(start.session_id, start.path, start.path_bytes)?;
    let mut writer = service
        .host
        .write_file(&id, &path, options)
        .await
        .map_err(failed_in(&id))?;
    let mut size = 0;
    loop {
        match next_part(&mut requests, |message| message.part).await? {
            Some(Part::Data(bytes)) => {
                size += bytes.len() as u64;
                writer.write(bytes).await.map_err(failed_in(&id))?;
            }
            Some(Part::Finish(_)) => break,
            Some(Part::Start(_)) => return Err(out_of_order("stream has a second `start`")),
            None => {
                return Err(out_of_order(
                    "stream ended without `finish`; nothing was written",
                ));
            }
        }
    }
    writer.commit().await.map_err(failed_in(&id))?;
    Response::ok(v1::WriteFileResponse {
        size,
        ..Default::default()
    })
}

pub(super) async fn stat(
    service: &Service,
    request: v1::StatRequest,
) -> ServiceResult<v1::StatResponse> {
    let (id, path) = address(request.session_id, request.path, request.path_bytes)?;
    let stat = service
        .host
        .stat(&id, &path)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::StatResponse {
        stat: v1::FileStat::from(stat).into(),
        ..Default::default()
    })
}

pub(super) async fn list_dir(
    service: &Service,
    request: v1::ListDirRequest,
) -> ServiceResult<ServiceStream<v1::ListDirResponse>> {
    let (id, path) = address(request.session_id, request.path, request.path_bytes)?;
    let entries = service
        .host
        .list_dir(&id, &path, request.depth.max(1))
        .await
        .map_err(failed_in(&id))?;
    Ok(Response::new(batches(entries, |batch| {
        v1::ListDirResponse {
            entries: batch.into_iter().map(Into::into).collect(),
            ..Default::default()
        }
    })))
}

pub(super) async fn make_dir(
    service: &Service,
    request: v1::MakeDirRequest,
) -> ServiceResult<v1::MakeDirResponse> {
    let (id, path) = address(request.session_id, request.path, request.path_bytes)?;
    let options = MakeDirOptions {
        create_dirs: request.create_dirs,
        owner: owner(request.owner.into_option()),
    };
    let created = service
        .host
        .make_dir(&id, &path, options)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::MakeDirResponse {
        created,
        ..Default::default()
    })
}

pub(super) async fn move_path(
    service: &Service,
    request: v1::MovePathRequest,
) -> ServiceResult<v1::MovePathResponse> {
    let (id, path) = address(request.session_id, request.path, request.path_bytes)?;
    let new_path = unpack_path(request.new_path, request.new_path_bytes)
        .map_err(|error| failed_in(&id)(error.with_field("new_path")))?;
    let options = MakeDirOptions {
        create_dirs: request.create_dirs,
        owner: owner(request.owner.into_option()),
    };
    service
        .host
        .move_path(&id, &path, &new_path, options)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::MovePathResponse::default())
}

pub(super) async fn remove_path(
    service: &Service,
    request: v1::RemovePathRequest,
) -> ServiceResult<v1::RemovePathResponse> {
    let (id, path) = address(request.session_id, request.path, request.path_bytes)?;
    service
        .host
        .remove_path(&id, &path)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::RemovePathResponse::default())
}

pub(super) async fn export_tree(
    service: &Service,
    request: v1::ExportTreeRequest,
) -> ServiceResult<ServiceStream<v1::ExportTreeResponse>> {
    let (id, path) = address(request.session_id, request.path, request.path_bytes)?;
    let reader = service
        .host
        .export_tree(&id, &path)
        .await
        .map_err(failed_in(&id))?;
    let content = stream::unfold(reader, move |mut reader| {
        let fail = failed_in(&id);
        async move {
            let chunk = reader.next().await?.map_err(fail);
            Some((
                chunk.map(|data| v1::ExportTreeResponse {
                    data,
                    ..Default::default()
                }),
                reader,
            ))
        }
    });
    Ok(Response::new(Box::pin(content)))
}

pub(super) async fn import_tree(
    service: &Service,
    mut requests: InboundStream<v1::ImportTreeRequest>,
) -> ServiceResult<v1::ImportTreeResponse> {
    use import_tree_request::Part;
    let Some(Part::Start(start)) = next_part(&mut requests, |message| message.part).await? else {
        return Err(out_of_order("first message is not `start`"));
    };
    let (id, path) = address(start.session_id, start.path, start.path_bytes)?;
    let mut writer = service
        .host
        .import_tree(&id, &path)
        .await
        .map_err(failed_in(&id))?;
    loop {
        match next_part(&mut requests, |message| message.part).await? {
            Some(Part::Data(bytes)) => writer.write(bytes).await.map_err(failed_in(&id))?,
            Some(Part::Finish(_)) => break,
            Some(Part::Start(_)) => return Err(out_of_order("stream has a second `start`")),
            None => {
                return Err(out_of_order(
                    "stream ended without `finish`; the tree is incomplete",
                ));
            }
        }
    }
    let summary = writer.finish().await.map_err(failed_in(&id))?;
    Response::ok(v1::ImportTreeResponse {
        entries: summary.entries,
        bytes: summary.bytes,
        ..Default::default()
    })
}

/// Parses session id and path of a request.
pub(crate) fn address(
    session: String,
    path: String,
    path_bytes: Bytes,
) -> Result<(SessionId, PathBuf), ConnectError> {
    let id = SessionId::new(session).map_err(failed)?;
    let path = unpack_path(path, path_bytes).map_err(failed_in(&id))?;
    Ok((id, path))
}

fn owner(owner: Option<v1::FileOwner>) -> Option<(u32, u32)> {
    owner.map(|owner| (owner.uid, owner.gid))
}

fn checked_mode(mode: Option<u32>) -> Result<Option<u32>, ConnectError> {
    match mode {
        Some(mode) if mode > 0o7777 => Err(failed(
            Error::invalid("mode", format!("mode {mode:#o} has bits outside of 0o7777"))
                .with_hint("use at most 0o7777 (4095)"),
        )),
        mode => Ok(mode),
    }
}

fn file_part(part: impl Into<read_file_response::Part>) -> v1::ReadFileResponse {
    v1::ReadFileResponse {
        part: Some(part.into()),
        ..Default::default()
    }
}

/// Returns the next part of an upload; `None` at the end of the request stream.
async fn next_part<M: HasMessageView, P>(
    requests: &mut InboundStream<M>,
    part: impl Fn(M) -> Option<P>,
) -> Result<Option<P>, ConnectError> {
    match requests.next().await {
        None => Ok(None),
        Some(Err(error)) => Err(error),
        Some(Ok(message)) => match part(message.to_owned_message()) {
            Some(part) => Ok(Some(part)),
            None => Err(out_of_order("message has no part that this server knows")),
        },
    }
}

fn out_of_order(what: &str) -> ConnectError {
    failed(
        Error::invalid("part", what).with_hint("send `start`, then `data` messages, then `finish`"),
    )
}
