//! What a table says about one attempt, and how it becomes a test on every runtime.

use sandbar_core::RuntimeKind;

use crate::world::World;

/// One attempt and what must come of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) attempt: &'static str,
    /// With gVisor the kernel that says yes is the sentry, inside the boundary. This is then in the answer.
    gvisor_may_say: Option<&'static str>,
}

/// Refused on every runtime.
pub(crate) const fn held(attempt: &'static str) -> Case {
    Case { attempt, gvisor_may_say: None }
}

/// Refused on native. With gVisor the sentry may grant it, of what is its own and not the host's.
pub(crate) const fn contained(attempt: &'static str, gvisor_may_say: &'static str) -> Case {
    Case { attempt, gvisor_may_say: Some(gvisor_may_say) }
}

impl Case {
    /// Makes the attempt in a box of its own.
    pub(crate) fn check(&self, runtime: RuntimeKind) {
        self.check_in(&mut World::open(runtime), runtime);
    }

    pub(crate) fn check_in(&self, world: &mut World, runtime: RuntimeKind) {
        let said = world.attempt(self.attempt);
        let contained = runtime == RuntimeKind::Gvisor
            && self.gvisor_may_say.is_some_and(|text| said.starts_with("ESCAPED: ") && said.contains(text));
        assert!(said.starts_with("held: ") || contained, "{}: {said}", self.attempt);
    }
}

/// `attempts! { a_name_for_the_test: held("an-attempt"), … }`: the table of a family, and its tests on every runtime.
macro_rules! attempts {
    ($($test:ident: $case:expr,)+) => {
        pub(crate) const CASES: &[$crate::case::Case] = &[$($case),+];
        on_every_runtime! { $($test: $case,)+ }
    };
}

/// The tests of a table on every runtime that isolates.
macro_rules! on_every_runtime {
    ($($tests:tt)+) => {
        on_runtime! { native, sandbar_core::RuntimeKind::Native, $($tests)+ }
        on_runtime! { gvisor, sandbar_core::RuntimeKind::Gvisor, $($tests)+ }
    };
}

/// The tests of a table on one runtime, in a module named after it.
macro_rules! on_runtime {
    ($runtime:ident, $kind:expr, $($test:ident: $case:expr,)+) => {
        mod $runtime {
            use super::*;

            $(
                #[test]
                fn $test() {
                    $case.check($kind);
                }
            )+
        }
    };
}
