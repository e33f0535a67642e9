//! System calls by number: most calls of attempts have no wrapper, or one that gets in the
//! way.
#![expect(unsafe_code, reason = "a system call by number has no other interface")]

use std::{
    ffi::{CStr, CString, OsStr, c_long},
    io,
    marker::PhantomData,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// One argument of a call: a number, or memory that outlives the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument<'a>(c_long, PhantomData<&'a ()>);

impl<'a> Argument<'a> {
    pub(crate) const NULL: Self = Self(0, PhantomData);

    /// The address of something the kernel reads.
    pub(crate) fn read<T: ?Sized>(value: &'a T) -> Self {
        Self::address((&raw const *value).cast::<u8>())
    }

    /// The address of something the kernel writes.
    pub(crate) fn write<T: ?Sized>(value: &'a mut T) -> Self {
        Self::address((&raw mut *value).cast::<u8>())
    }

    fn address(pointer: *const u8) -> Self {
        Self::from(pointer.expose_provenance())
    }
}

impl From<i32> for Argument<'_> {
    fn from(number: i32) -> Self {
        Self(c_long::from(number), PhantomData)
    }
}

impl From<u32> for Argument<'_> {
    fn from(number: u32) -> Self {
        Self(c_long::from(number), PhantomData)
    }
}

impl From<u64> for Argument<'_> {
    fn from(number: u64) -> Self {
        Self(number.cast_signed(), PhantomData)
    }
}

impl From<usize> for Argument<'_> {
    fn from(number: usize) -> Self {
        Self(number.cast_signed() as c_long, PhantomData)
    }
}

impl<'a> From<&'a CStr> for Argument<'a> {
    fn from(text: &'a CStr) -> Self {
        Self::address(text.as_ptr().cast())
    }
}

impl<'a> From<&'a CString> for Argument<'a> {
    fn from(text: &'a CString) -> Self {
        Self::from(text.as_c_str())
    }
}

impl From<&OwnedFd> for Argument<'_> {
    fn from(descriptor: &OwnedFd) -> Self {
        Self::from(descriptor.as_raw_fd())
    }
}

/// `call!(SYS_x, a, b)`: the result of the call, or its error. See [`by_number`].
macro_rules! call {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        $crate::call::by_number(libc::$number, &[$($crate::call::Argument::from($argument)),*])
    };
}
pub(crate) use call;

/// Makes a system call with up to six arguments.
///
/// Callers keep to calls that touch no memory of this process but what an argument names, and give
/// the kernel the length of what they name.
pub(crate) fn by_number(number: c_long, arguments: &[Argument<'_>]) -> io::Result<usize> {
    let mut all = [0; 6];
    for (place, argument) in all.iter_mut().zip(arguments) {
        *place = argument.0;
    }
    let [first, second, third, fourth, fifth, sixth] = all;
    // SAFETY: every address among the arguments is that of a living value, borrowed as the kernel
    // uses it.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Takes over a descriptor that a call has returned.
pub(crate) fn descriptor(returned: io::Result<usize>) -> io::Result<OwnedFd> {
    let number = RawFd::try_from(returned?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just returned it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A path, or any text, as the kernel takes it.
pub(crate) fn text(text: impl AsRef<OsStr>) -> io::Result<CString> {
    Ok(CString::new(text.as_ref().as_bytes())?)
}

/// Opens with exactly these flags, and never across an `exec`.
pub(crate) fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    descriptor(call!(
        SYS_openat,
        libc::AT_FDCWD,
        &text(path)?,
        flags | libc::O_CLOEXEC,
        0
    ))
}
