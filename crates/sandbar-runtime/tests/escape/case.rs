//! One entry of a table of attempts, and its tests in every kind of box.

use sandbar_core::{RootRights, RuntimeKind, UserAccount};

use crate::world::World;

/// User that makes the attempts, and kind of its box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Native,
    /// An ordinary user of a native box.
    NativeUser,
    /// Root of a native box with `RootRights::Own`.
    NativeOwnRoot,
    /// An ordinary user of such a box, in which set-user-id programs work.
    NativeOwnUser,
    Gvisor,
    /// No isolation.
    None,
}

impl Subject {
    pub(crate) const fn runtime(self) -> RuntimeKind {
        match self {
            Self::Native | Self::NativeUser | Self::NativeOwnRoot | Self::NativeOwnUser => {
                RuntimeKind::Native
            }
            Self::Gvisor => RuntimeKind::Gvisor,
            Self::None => RuntimeKind::None,
        }
    }

    pub(crate) const fn rights(self) -> RootRights {
        match self {
            Self::NativeOwnRoot | Self::NativeOwnUser => RootRights::Own,
            _ => RootRights::Bare,
        }
    }

    /// `None` for root.
    pub(crate) fn user(self) -> Option<UserAccount> {
        let is_user = matches!(self, Self::NativeUser | Self::NativeOwnUser);
        is_user.then(|| UserAccount::find("1000", "", "").unwrap())
    }
}

/// One attempt and its expected result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) attempt: &'static str,
    /// Text in the verdict if gVisor may grant the attempt: the sentry grants it, inside the
    /// boundary.
    gvisor_may_say: Option<&'static str>,
    /// Text in the verdict if root with `RootRights::Own` may do it inside its box.
    own_root_may_say: Option<&'static str>,
    /// Text in the verdict if set-user-id programs let a user of such a box do it.
    own_user_may_say: Option<&'static str>,
}

/// Refused in every box.
pub(crate) const fn held(attempt: &'static str) -> Case {
    Case {
        attempt,
        gvisor_may_say: None,
        own_root_may_say: None,
        own_user_may_say: None,
    }
}

/// Refused on native. With gVisor the sentry may grant it for its own kernel objects.
pub(crate) const fn contained(attempt: &'static str, gvisor_may_say: &'static str) -> Case {
    Case {
        gvisor_may_say: Some(gvisor_may_say),
        ..held(attempt)
    }
}

impl Case {
    /// Grants it to root with `RootRights::Own`.
    pub(crate) const fn but_for_own_root(self, may_say: &'static str) -> Self {
        Self {
            own_root_may_say: Some(may_say),
            ..self
        }
    }

    /// Grants it to users beside such a root.
    pub(crate) const fn but_for_own_user(self, may_say: &'static str) -> Self {
        Self {
            own_user_may_say: Some(may_say),
            ..self
        }
    }

    /// Makes the attempt in a box of its own.
    pub(crate) fn check(&self, subject: Subject) {
        self.check_in(&mut World::open(subject), subject);
    }

    pub(crate) fn check_in(&self, world: &mut World, subject: Subject) {
        let said = world.attempt(self.attempt);
        let may_say = match subject {
            Subject::Gvisor => self.gvisor_may_say,
            Subject::NativeOwnRoot => self.own_root_may_say,
            Subject::NativeOwnUser => self.own_user_may_say,
            Subject::Native | Subject::NativeUser | Subject::None => None,
        };
        let is_granted =
            may_say.is_some_and(|text| said.starts_with("ESCAPED: ") && said.contains(text));
        // An attempt that a user cannot even prepare counts as held.
        let is_out_of_reach = subject.user().is_some()
            && said.starts_with("inconclusive: prepare: ")
            && (said.contains("Permission denied") || said.contains("Operation not permitted"));
        assert!(
            said.starts_with("held: ") || is_granted || is_out_of_reach,
            "{}: {said}",
            self.attempt
        );
    }
}

/// Makes the attempts of a family one after the other, each in a box of its own, on one host.
pub(crate) fn check_family(cases: &[Case], subject: Subject) {
    let mut world = World::open(subject);
    for case in cases {
        case.check_in(&mut world, subject);
        world.renew();
    }
}

/// `attempts! { a_name_for_the_test: held("an-attempt"), … }`: the table of a family, and its tests
/// in every kind of box.
///
/// Every family is one test for each subject. For root of a native box and of a gVisor box every
/// attempt is a test of its own as well, on a host of its own: `make test-full` runs these in the
/// place of the families.
macro_rules! attempts {
    ($($test:ident: $case:expr,)+) => {
        pub(crate) const CASES: &[$crate::case::Case] = &[$($case),+];
        in_box! { native, $crate::case::Subject::Native, $($test: $case,)+ }
        in_box! { gvisor, $crate::case::Subject::Gvisor, $($test: $case,)+ }

        #[test]
        fn root_of_native_box_cannot_escape() {
            $crate::case::check_family(CASES, $crate::case::Subject::Native);
        }

        #[test]
        fn root_of_gvisor_box_cannot_escape() {
            $crate::case::check_family(CASES, $crate::case::Subject::Gvisor);
        }

        #[test]
        fn user_of_native_box_cannot_escape() {
            $crate::case::check_family(CASES, $crate::case::Subject::NativeUser);
        }

        #[test]
        fn own_root_of_native_box_cannot_escape() {
            $crate::case::check_family(CASES, $crate::case::Subject::NativeOwnRoot);
        }

        #[test]
        fn user_beside_own_root_cannot_escape() {
            $crate::case::check_family(CASES, $crate::case::Subject::NativeOwnUser);
        }
    };
}

/// The tests of a table in one kind of box, in a module named after it.
macro_rules! in_box {
    ($kind:ident, $subject:expr, $($test:ident: $case:expr,)+) => {
        mod $kind {
            use super::*;

            $(
                #[test]
                fn $test() {
                    $case.check($subject);
                }
            )+
        }
    };
}
