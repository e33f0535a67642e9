//! Moving volumes and bases between ZFS pools with `zfs send` and `zfs receive`, exactly and
//! incrementally.

use std::{
    io::{self, Read, Write},
    process::Stdio,
};

use sandbar_core::{BaseName, ByteCount, Error, Result, SessionId, SnapshotName};

use super::{
    ZfsStorage,
    catalog::{Dataset, Role, dataset_of},
    command::{Failure, Fault},
    layout::READY,
    listing,
    marks::{self, BaseMark, VolumeMark},
    store::lock,
};
use crate::Storage;
use crate::errors::{base_exists, snapshot_not_found, volume_exists};

/// Guid of a snapshot, the same in every pool it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotGuid(pub u64);

impl ZfsStorage {
    /// Returns the guid of a base: equal on two pools if they have the same base.
    pub fn base_guid(&self, base: &BaseName) -> Result<SnapshotGuid> {
        if !self.catalog().bases.contains_key(base) {
            return Err(self.base_missing(base));
        }
        let ready = self.layout.ready(base);
        let rows = listing::read_these(&self.tools, &["guid"], &[&ready])
            .map_err(|failure| failure.into_error(format!("read base `{base}`")))?;
        Ok(SnapshotGuid(listing::only(&rows, &ready)?.number("guid")))
    }

    /// Writes a base for [`import_base`](Self::import_base) on another pool.
    pub fn export_base(&self, base: &BaseName, output: &mut impl Write) -> Result<()> {
        self.base_guid(base)?;
        self.send(&["send", &self.layout.ready(base)], output)
    }

    /// Creates a base from [`export_base`](Self::export_base) of another pool, with the same name.
    pub fn import_base(&self, base: &BaseName, input: &mut impl Read) -> Result<()> {
        if self.catalog().bases.contains_key(base) {
            return Err(base_exists(base));
        }
        let (dataset, directory) = self.stage_names(base);
        let mut receive = || -> Result<()> {
            self.receive(&dataset, input)?;
            let mark = marks::assignment(marks::BASE, &BaseMark::CURRENT)?;
            self.tools
                .zfs(&["set", &mark, &format!("{dataset}@{READY}")])
                .map_err(|failure| failure.into_error(format!("import base `{base}`")))?;
            self.publish_base(base, &dataset, &directory)?;
            let record = self.base_record(base)?;
            if record.name != *base {
                self.delete_base(base)?;
                return Err(Error::invalid(
                    "name",
                    format!("stream contains base `{}`, not `{base}`", record.name),
                )
                .with_hint("import it with that name"));
            }
            Ok(())
        };
        receive().inspect_err(|_| self.clear_stage(&dataset))
    }

    /// Writes a volume at a snapshot. `receiver_base` is the guid of the base in the receiving
    /// pool: if it is the direct origin of this volume, only the difference is written.
    pub fn export_stream(
        &self,
        volume: &SessionId,
        snapshot: &SnapshotName,
        receiver_base: Option<SnapshotGuid>,
        output: &mut impl Write,
    ) -> Result<()> {
        let (base, target, origin) = {
            let catalog = self.catalog();
            let base = catalog.live(volume)?.mark.base;
            let known = catalog.snapshots(volume);
            let target = known
                .iter()
                .find(|found| found.name == *snapshot)
                .map(|found| found.full_name.clone());
            let target = target.ok_or_else(|| {
                snapshot_not_found(volume, snapshot, known.iter().map(|found| &found.name))
            })?;
            let origin = catalog
                .datasets
                .get(dataset_of(&target))
                .and_then(|dataset| dataset.origin.clone());
            (base, target, origin)
        };
        let ready = self.layout.ready(&base);
        let shares_base = origin.as_ref() == Some(&ready)
            && receiver_base.is_some()
            && self.base_guid(&base).ok() == receiver_base;
        let arguments: &[&str] = if shares_base {
            &["send", "-i", &ready, &target]
        } else {
            &["send", &target]
        };
        self.send(arguments, output)
    }

    /// Creates a volume from [`export_stream`](Self::export_stream) of another pool, over `base` of
    /// this pool, which must be the same base.
    pub fn import_stream(
        &self,
        volume: &SessionId,
        base: &BaseName,
        quota: Option<ByteCount>,
        input: &mut impl Read,
    ) -> Result<()> {
        if self.catalog().live(volume).is_ok() {
            return Err(volume_exists(volume));
        }
        let refquota = self.refquota(base, quota)?;
        let mark = VolumeMark::new(self.moment(), base.clone(), None);
        let dataset = self
            .layout
            .session(volume, &format!("r{}", marks::tag(self.moment())))?;
        self.receive_volume(volume, mark, refquota, &dataset, input)
            .inspect_err(|_| self.clear_stage(&dataset))
    }

    fn receive_volume(
        &self,
        volume: &SessionId,
        mark: VolumeMark,
        refquota: u64,
        dataset: &str,
        input: &mut impl Read,
    ) -> Result<()> {
        let fail = |failure: Failure| failure.into_error(format!("import volume `{volume}`"));
        self.receive(dataset, input)?;
        let rows = listing::read_all(&self.tools, &["origin"], &[dataset]).map_err(fail)?;
        for snapshot in rows.keys().filter(|name| name.contains('@')) {
            self.tools
                .zfs_retrying(&["destroy", snapshot])
                .map_err(fail)?;
        }
        let origin = rows
            .get(dataset)
            .and_then(|row| row.text("origin"))
            .map(str::to_owned);
        let mut settings = vec![
            "canmount=noauto".to_owned(),
            format!(
                "mountpoint={}",
                self.layout.volume_directory(volume).display()
            ),
            marks::assignment(marks::VOLUME, &mark)?,
        ];
        if refquota > 0 {
            settings.push(format!("refquota={refquota}"));
        }
        // Old versions accept only one property per command.
        for setting in settings {
            self.tools
                .zfs_retrying(&["set", &setting, dataset])
                .map_err(fail)?;
        }
        let number = self.catalog().next_number(volume);
        let published = self.layout.generation(volume, number)?;
        match self.tools.zfs_retrying(&["rename", dataset, &published]) {
            Err(failure) if failure.fault == Fault::Exists => return Err(volume_exists(volume)),
            outcome => drop(outcome.map_err(fail)?),
        }
        let role = Role::Generation {
            number,
            mark,
            is_dead: false,
        };
        let received = Dataset {
            volume: volume.clone(),
            role,
            origin,
            refquota,
            snapshots: Vec::new(),
        };
        self.catalog().datasets.insert(published, received);
        Ok(())
    }

    fn send(&self, arguments: &[&str], output: &mut impl Write) -> Result<()> {
        let fail = |failure: Failure| failure.into_error("send a stream");
        let mut child = self
            .tools
            .start_zfs(arguments, self.tools.pool_lock.stream(), Stdio::piped())
            .map_err(fail)?;
        let copied = child
            .stdout
            .take()
            .map(|mut stream| io::copy(&mut stream, output));
        if let Some(Err(error)) = copied {
            // The reader is gone: the sender ends with EPIPE.
            let _ = self.tools.finish(arguments, child);
            return Err(Error::io("write a stream", error));
        }
        self.tools.finish(arguments, child).map_err(fail)
    }

    fn receive(&self, dataset: &str, input: &mut impl Read) -> Result<()> {
        let arguments = ["receive", "-u", dataset];
        let fail =
            |failure: Failure| failure.into_error(format!("receive a stream into `{dataset}`"));
        let mut child = self
            .tools
            .start_zfs(&arguments, Stdio::piped(), self.tools.pool_lock.stream())
            .map_err(fail)?;
        let copied = child
            .stdin
            .take()
            .map(|mut stream| io::copy(input, &mut stream));
        let finished = self.tools.finish(&arguments, child);
        match (copied, finished) {
            // The error of the program is more specific than the broken pipe.
            (_, Err(failure)) => Err(fail(failure)),
            (Some(Err(error)), Ok(())) => Err(Error::io("read a stream", error)),
            _ => Ok(()),
        }
    }

    fn clear_stage(&self, dataset: &str) {
        let _dataset_lock = lock(&self.dataset_lock);
        if let Err(error) = self.destroy_unfinished(dataset) {
            tracing::warn!(
                error = error.chain(),
                "could not remove a partly received dataset"
            );
        }
    }
}
