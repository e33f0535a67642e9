//! A box cannot reach what contains it: cgroups and control sockets.

use crate::case::held;

attempts! {
    box_cannot_leave_its_cgroup: held("cgroup-leave"),
    box_cannot_change_the_limits_of_its_cgroup: held("cgroup-limits"),
    box_cannot_set_a_release_agent: held("cgroup-release-agent"),
    box_cannot_create_a_cgroup: held("cgroup-make"),
    path_of_the_cgroup_on_the_host_is_hidden: held("cgroup-path"),
    no_pipe_or_socket_of_the_runtime_opens: held("control-pipes"),
}
