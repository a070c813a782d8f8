//! The tenant's own name for a reminder.

use std::str::FromStr;

use crate::api::reading::fields::fault_of_line;

/// The maximum length of a reference, in characters.
const LONGEST: usize = 200;

/// The tenant's own name for a reminder, unique among its reminders that are not cancelled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reference(pub(super) String);

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match fault_of_line(text, 1..=LONGEST) {
            Some(why) => Err(why),
            None => Ok(Self(text.to_owned())),
        }
    }
}
