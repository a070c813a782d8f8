//! Response rules: the effect of a reply on the delivery, its circuit, its throttle and its lane.
//!
//! | part | content |
//! | --- | --- |
//! | `effect` | the default table: a [`ReplyEffect`] for each reply |
//! | `rules` | a tenant's exceptions to the table, and their JSON form |
//! | `for_reminders` | the exceptions for reminder runs, and the merging of two sets of rules |

mod effect;
mod for_reminders;
mod rules;

pub use effect::{Disposition, MAX_LANE_SLEEP, ReplyEffect};
pub use rules::{MAX_RESPONSE_RULES, ResponseRules, ResponseRulesError};
