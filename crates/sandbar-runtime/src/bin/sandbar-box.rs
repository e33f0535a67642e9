//! Binary with only the roles spawner and init, for tests whose own binary is not `sandbar`.

fn main() {
    sandbar_runtime::run_role();
}
