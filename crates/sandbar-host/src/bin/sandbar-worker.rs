//! Binary with only the role of the worker server, for tests whose own binary is not `sandbar`.

fn main() {
    sandbar_host::run_worker_role();
}
