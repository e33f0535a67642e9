//! Loop devices: one per pool image, freed by the kernel when the last mount is gone.

#![expect(
    unsafe_code,
    reason = "loop devices have no other interface than ioctl"
)]

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

const LOOP_SET_CAPACITY: libc::Ioctl = 0x4C07;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CONTROL_GET_FREE: libc::Ioctl = 0x4C82;
const FLAG_AUTOCLEAR: u32 = 4;
const FLAG_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    real_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// Attached loop device. The kernel frees it when neither this descriptor nor a mount is left.
#[derive(Debug)]
pub(super) struct LoopDevice {
    file: File,
    path: PathBuf,
}

impl LoopDevice {
    /// Returns the device of `image`, attaching one if needed. Two devices on one image would
    /// corrupt it.
    pub(super) fn attach(image: &Path) -> io::Result<Self> {
        if let Some(device) = Self::find(image)? {
            return Ok(device);
        }
        let backing = OpenOptions::new().read(true).write(true).open(image)?;
        let control = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/loop-control")?;
        loop {
            // SAFETY: `LOOP_CTL_GET_FREE` takes no argument; `control` is open.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CONTROL_GET_FREE) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            // Direct I/O avoids caching pages twice; not every file system supports it.
            let configured = [FLAG_AUTOCLEAR | FLAG_DIRECT_IO, FLAG_AUTOCLEAR]
                .into_iter()
                .map(|flags| configure(&file, &backing, flags))
                .find(|outcome| !matches!(outcome, Err(error) if error.raw_os_error() == Some(libc::EINVAL)));
            match configured {
                Some(Ok(())) => return Ok(Self { file, path }),
                // Another process took the free device between the two calls.
                Some(Err(error)) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
            }
        }
    }

    /// Finds a device that `image` is already attached to, for example of a killed host whose mount
    /// a box still holds.
    fn find(image: &Path) -> io::Result<Option<Self>> {
        let wanted = fs::metadata(image)?;
        for entry in fs::read_dir("/sys/block")? {
            let name = entry?.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with("loop")) else {
                continue;
            };
            let Ok(backing) = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"))
            else {
                continue;
            };
            let same = fs::metadata(backing.trim_end())
                .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()));
            if same {
                let path = PathBuf::from(format!("/dev/{name}"));
                let file = OpenOptions::new().read(true).write(true).open(&path)?;
                return Ok(Some(Self { file, path }));
            }
        }
        Ok(None)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Updates the device to the current size of the image.
    pub(super) fn refresh_capacity(&self) -> io::Result<()> {
        // SAFETY: `LOOP_SET_CAPACITY` ignores its argument; the device is open.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), LOOP_SET_CAPACITY, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn configure(device: &File, backing: &File, flags: u32) -> io::Result<()> {
    let fd = u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?;
    let config = LoopConfig {
        fd,
        block_size: 0,
        info: LoopInfo {
            device: 0,
            inode: 0,
            real_device: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: `config` is laid out as `struct loop_config` and outlives the call; both descriptors
    // are open.
    match unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            LOOP_CONFIGURE,
            std::ptr::from_ref(&config),
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
