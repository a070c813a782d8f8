//! Response rules: the effect of a reply on the delivery, its circuit, its throttle and its lane.
//!
//! | part | content |
//! | --- | --- |
//! | `effect` | the default table: a [`ReplyEffect`] for each reply |
//! | `rules` | the rules by which a tenant differs from the table, read and written |
//! | `for_reminders` | the rules by which runs of reminders differ, and rules applied over others |

mod effect;
mod for_reminders;
mod rules;

pub use effect::{Disposition, MAX_LANE_SLEEP, ReplyEffect};
pub use rules::{MAX_RESPONSE_RULES, ResponseRules, ResponseRulesError};
