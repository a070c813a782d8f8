//! Notification kinds, and sets of them.

use std::fmt;
use std::str::FromStr;

use breakerbox_core::nearest;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal,)*) => {
        /// The kind of a notification.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Returns the name used in settings, responses and messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }
    };
}

kinds! {
    /// A circuit opened, and has not closed for a while. When a failed probe reopens the circuit, no further
    /// notification is sent.
    Trip "trip",
    /// A circuit closed again after its probes succeeded, and its outage was notified.
    Recovery "recovery",
    /// A circuit was disabled because it kept failing, or an endpoint responded with 410.
    Disabled "disabled",
    /// A circuit will be disabled if it continues to fail.
    DisableWarning "disable_warning",
    /// The store through which processes share circuits does not respond.
    StoreLost "store_lost",
    /// The circuit store responds again.
    StoreBack "store_back",
    /// The gateway's database rejects writes, so no events are accepted.
    DatabaseLost "database_lost",
    /// The gateway's database accepts writes again.
    DatabaseBack "database_back",
    /// Most destinations can't be reached, so the fault is on the gateway's side.
    NetworkLost "network_lost",
    /// Destinations can be reached again, or the fault is no longer treated as the gateway's.
    NetworkBack "network_back",
    /// Many of a tenant's deliveries became dead letters.
    DeadLetters "dead_letters",
    /// A reminder stopped because of a run's result.
    ReminderStopped "reminder_stopped",
    /// A test notification that a client requested. Every target receives tests, so this kind can't be selected.
    Test "test",
}

impl Kind {
    /// Iterates over the kinds that a target can select: all except `Test`.
    pub fn chosen() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|kind| *kind != Self::Test)
    }

    /// Returns whether the kind is about the gateway itself and concerns only the operator.
    #[must_use]
    pub const fn is_operators(self) -> bool {
        matches!(
            self,
            Self::StoreLost
                | Self::StoreBack
                | Self::DatabaseLost
                | Self::DatabaseBack
                | Self::NetworkLost
                | Self::NetworkBack
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The string is not the name of a notification kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be one of {}{}", names(), hint(.0))]
pub struct KindError(String);

fn names() -> String {
    Kind::chosen().map(Kind::name).collect::<Vec<_>>().join(", ")
}

fn hint(found: &str) -> String {
    let near = nearest(found, Kind::chosen().map(Kind::name));
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        let short = || text.chars().take(64).collect();
        Self::chosen().find(|kind| kind.name() == text).ok_or_else(|| KindError(short()))
    }
}

/// A set of notification kinds. An empty set would be useless, so an empty list means all kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kinds(u16);

impl Kinds {
    /// The set of all kinds.
    pub const ALL: Self = Self(u16::MAX);

    /// Creates a set of these kinds, or of all kinds if the list is empty.
    #[must_use]
    pub fn of(kinds: &[Kind]) -> Self {
        let bits = kinds.iter().fold(0, |bits, kind| bits | bit(*kind));
        if bits == 0 { Self::ALL } else { Self(bits) }
    }

    /// Returns whether the set contains this kind. Every set contains `Test`.
    #[must_use]
    pub const fn has(self, kind: Kind) -> bool {
        matches!(kind, Kind::Test) || self.0 & bit(kind) != 0
    }

    /// Iterates over the selectable kinds in the set, in the order of [`Kind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::chosen().filter(move |kind| self.has(*kind))
    }

    /// Returns whether the set contains all kinds.
    #[must_use]
    pub const fn is_all(self) -> bool {
        self.0 == Self::ALL.0
    }
}

const fn bit(kind: Kind) -> u16 {
    1 << kind as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_explained() {
        for kind in Kind::chosen() {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "recovry".parse::<Kind>().unwrap_err().to_string();
        assert!(error.ends_with("reminder_stopped; did you mean `recovery`?"), "{error}");
        assert!("test".parse::<Kind>().is_err(), "it can't be chosen");
    }

    #[test]
    fn a_set_has_what_was_put_in_and_a_test() {
        let some = Kinds::of(&[Kind::Trip, Kind::StoreBack]);
        assert_eq!(some.iter().collect::<Vec<_>>(), [Kind::Trip, Kind::StoreBack]);
        assert!(some.has(Kind::Test) && !some.has(Kind::Recovery) && !some.is_all());
        assert_eq!(Kinds::of(&[]), Kinds::ALL);
        assert_eq!(Kinds::ALL.iter().count(), Kind::ALL.len() - 1);
    }
}
