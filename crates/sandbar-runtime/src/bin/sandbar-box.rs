//! The spawner and the init by themselves, for tests whose own binary is not `sandbar`.

fn main() {
    sandbar_runtime::run_role();
}
