//! The owner's own name for a reminder.

use std::str::FromStr;

/// The longest, in characters.
const LONGEST: usize = 200;

/// The owner's own name for a reminder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reference(pub(super) String);

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = text.chars().count();
        if (1..=LONGEST).contains(&length) && !text.chars().any(char::is_control) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("must be 1 to {LONGEST} characters without line ends, but has {length}"))
    }
}
