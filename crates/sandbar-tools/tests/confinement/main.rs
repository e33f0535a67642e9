//! No path leads out of a session, whatever the session does to it: tools on real volumes of every
//! storage.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod links;
mod owners;
mod races;
mod strange_files;
mod volume;

macro_rules! on_every_storage {
    ($($module:ident: $($case:ident),* $(,)?;)*) => {
        on_every_storage!(@storage btrfs, BtrfsImage, $($module: $($case),*;)*);
        on_every_storage!(@storage local_disk, LocalDiskExt4, $($module: $($case),*;)*);
        on_every_storage!(@storage zfs, Zfs, $($module: $($case),*;)*);
    };
    (@storage $storage:ident, $variant:ident, $($module:ident: $($case:ident),*;)*) => {
        mod $storage {
            $($(
                #[test]
                fn $case() {
                    crate::$module::$case(&crate::volume::Volume::new(sandbar_testing::Backend::$variant));
                }
            )*)*
        }
    };
}

on_every_storage! {
    links:
        links_and_dots_end_inside,
        writing_through_a_link_ends_inside,
        searches_do_not_follow_links,
        links_of_the_kernel_are_refused;
    races:
        a_link_that_comes_and_goes_leads_nowhere,
        a_directory_swapped_during_a_search_leads_nowhere;
    strange_files:
        pipes_and_devices_are_not_opened;
}

// Not on zfs-fuse, which cannot translate owners and checks them by itself.
mod translated {
    use sandbar_testing::Backend;

    use crate::{owners, volume::Volume};

    #[test]
    fn files_created_on_btrfs_belong_to_the_sandbox_user() {
        owners::created_files_belong_to_the_sandbox_user(&Volume::new(Backend::BtrfsImage));
    }

    #[test]
    fn files_created_on_local_disk_belong_to_the_sandbox_user() {
        owners::created_files_belong_to_the_sandbox_user(&Volume::new(Backend::LocalDiskExt4));
    }
}
