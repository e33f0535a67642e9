//! What a table says about one attempt, and how it becomes a test in every kind of box.

use sandbar_core::{RootRights, RuntimeKind, UserAccount};

use crate::world::World;

/// Who makes the attempts, and in which box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Native,
    /// An ordinary user of a native box.
    NativeUser,
    /// The root of a native box that has rights of its own.
    NativeOwnRoot,
    /// An ordinary user of such a box, in which programs may set the user id.
    NativeOwnUser,
    Gvisor,
    /// No wall.
    None,
}

impl Subject {
    pub(crate) const fn runtime(self) -> RuntimeKind {
        match self {
            Self::Native | Self::NativeUser | Self::NativeOwnRoot | Self::NativeOwnUser => RuntimeKind::Native,
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

/// One attempt and what must come of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) attempt: &'static str,
    /// With gVisor the kernel that says yes is the sentry, inside the boundary. This is then in the answer.
    gvisor_may_say: Option<&'static str>,
    /// A root with rights of its own may do it, inside its box.
    own_root_may_say: Option<&'static str>,
    /// Programs that set the user id work for a user of such a box.
    own_user_may_say: Option<&'static str>,
}

/// Refused in every box.
pub(crate) const fn held(attempt: &'static str) -> Case {
    Case { attempt, gvisor_may_say: None, own_root_may_say: None, own_user_may_say: None }
}

/// Refused on native. With gVisor the sentry may grant it, of what is its own and not the host's.
pub(crate) const fn contained(attempt: &'static str, gvisor_may_say: &'static str) -> Case {
    Case { gvisor_may_say: Some(gvisor_may_say), ..held(attempt) }
}

impl Case {
    /// Granted to a root with rights of its own.
    pub(crate) const fn but_for_own_root(self, may_say: &'static str) -> Self {
        Self { own_root_may_say: Some(may_say), ..self }
    }

    /// Granted to users where root has rights of its own.
    pub(crate) const fn but_for_own_user(self, may_say: &'static str) -> Self {
        Self { own_user_may_say: Some(may_say), ..self }
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
        let is_granted = may_say.is_some_and(|text| said.starts_with("ESCAPED: ") && said.contains(text));
        // What a user cannot even prepare is held.
        let is_out_of_reach = subject.user().is_some()
            && said.starts_with("inconclusive: prepare: ")
            && (said.contains("Permission denied") || said.contains("Operation not permitted"));
        assert!(said.starts_with("held: ") || is_granted || is_out_of_reach, "{}: {said}", self.attempt);
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

/// `attempts! { a_name_for_the_test: held("an-attempt"), … }`: the table of a family, and its tests in every kind of box.
///
/// Every family is one test for each subject. For root of a native box and of a gVisor box every attempt is a test of its own
/// as well, on a host of its own: `make test-full` runs these in the place of the families.
macro_rules! attempts {
    ($($test:ident: $case:expr,)+) => {
        pub(crate) const CASES: &[$crate::case::Case] = &[$($case),+];
        in_box! { native, $crate::case::Subject::Native, $($test: $case,)+ }
        in_box! { gvisor, $crate::case::Subject::Gvisor, $($test: $case,)+ }

        #[test]
        fn root_of_a_native_box_does_not_get_out() {
            $crate::case::check_family(CASES, $crate::case::Subject::Native);
        }

        #[test]
        fn root_of_a_gvisor_box_does_not_get_out() {
            $crate::case::check_family(CASES, $crate::case::Subject::Gvisor);
        }

        #[test]
        fn an_ordinary_user_does_not_get_out() {
            $crate::case::check_family(CASES, $crate::case::Subject::NativeUser);
        }

        #[test]
        fn a_root_with_rights_of_its_own_does_not_get_out() {
            $crate::case::check_family(CASES, $crate::case::Subject::NativeOwnRoot);
        }

        #[test]
        fn a_user_beside_such_a_root_does_not_get_out() {
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
