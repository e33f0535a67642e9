//! System call allow-list of worker processes: memory, reading files, and the socket of the job.
//!
//! Nothing that creates, changes or executes a file, makes a process or a thread, opens a socket,
//! or acts on another process.

/// System calls allowed with any arguments.
#[rustfmt::skip]
const EVERYWHERE: &[libc::c_long] = &[
    libc::SYS_read, libc::SYS_readv, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_write,
    libc::SYS_writev, libc::SYS_close, libc::SYS_close_range, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx,
    libc::SYS_lseek, libc::SYS_openat, libc::SYS_openat2, libc::SYS_getdents64, libc::SYS_readlinkat,
    libc::SYS_fadvise64, libc::SYS_readahead, libc::SYS_fcntl, libc::SYS_dup, libc::SYS_dup3, libc::SYS_fstatfs,
    libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr, libc::SYS_listxattr, libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_brk, libc::SYS_madvise,
    libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_ppoll, libc::SYS_pselect6,
    libc::SYS_futex, libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_getpid, libc::SYS_gettid,
    libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_clock_gettime,
    libc::SYS_gettimeofday, libc::SYS_clock_nanosleep, libc::SYS_nanosleep, libc::SYS_getrandom, libc::SYS_getrlimit,
    libc::SYS_sigaltstack, libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
    // `abort` signals its own thread. Landlock and the missing capability keep it to this process.
    libc::SYS_tgkill,
    libc::SYS_exit, libc::SYS_exit_group,
];

#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED: &[libc::c_long] = EVERYWHERE;

#[cfg(target_arch = "x86_64")]
pub(super) const ALLOWED: &[libc::c_long] = &{
    // `poll` has no number on newer architectures.
    let mut all = [libc::SYS_poll; EVERYWHERE.len() + 1];
    let mut at = 0;
    while at < EVERYWHERE.len() {
        all[at] = EVERYWHERE[at];
        at += 1;
    }
    all
};
