//! Files of the host are not reached by any path.

use crate::case::held;

attempts! {
    path_of_a_host_file_leads_nowhere: held("path-plain"),
    nothing_is_above_the_root: held("path-dot-dot"),
    magic_links_lead_back_into_the_box: held("path-proc-self-root"),
    root_of_process_1_is_the_box: held("path-proc-1-root"),
    working_directory_of_process_1_is_in_the_box: held("path-proc-1-cwd"),
    root_of_a_host_process_is_out_of_reach: held("path-proc-host-pid-root"),
    root_of_every_visible_process_is_the_box: held("path-proc-every-root"),
    no_open_directory_of_any_process_leads_out: held("path-proc-every-descriptor"),
    no_inherited_directory_leads_out: held("path-inherited-directory"),
    symbolic_links_lead_back_into_the_box: held("path-symbolic-link"),
    chroot_does_not_lead_out: held("chroot-break-out"),
    chroot_in_user_namespace_does_not_lead_out: held("chroot-break-out-in-user-namespace"),
    root_cannot_be_pivoted: held("pivot-root"),
    file_cannot_be_opened_by_handle: held("open-by-handle"),
    forged_handle_opens_nothing: held("open-by-forged-handle"),
}
