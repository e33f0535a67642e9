//! What holds the box is out of its reach.

use crate::case::held;

attempts! {
    it_cannot_leave_its_cgroup: held("cgroup-leave"),
    it_cannot_change_the_limits_of_its_cgroup: held("cgroup-limits"),
    it_cannot_set_a_release_agent: held("cgroup-release-agent"),
    it_cannot_make_a_cgroup: held("cgroup-make"),
    the_place_of_its_cgroup_on_the_host_is_not_told: held("cgroup-path"),
    no_pipe_or_socket_of_the_runtime_opens: held("control-pipes"),
}
