//! The guide to reminders: every command works, and prints what the guide shows.

use breakerbox_model::delivery::RetrySchedule;
use breakerbox_model::objects::{ReminderRules, ReminderStateName};
use breakerbox_model::reminder::StopReason;

use super::limits::tried;
use super::site::Site;
use super::things::Things;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_to_reminders_does_as_it_says() {
    let site = Site::start().await;
    let things = Things::of(&site, "acme").await;
    let (commands, examples) = tried("reminders.md", &site, &things);
    assert!(commands >= 23 && examples == 2, "{commands} {examples}");
}

#[test]
fn the_guide_to_reminders_has_the_defaults_and_all_names() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/reminders.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rules = ReminderRules::default();
    let waits = serde_json::to_string(&RetrySchedule::for_reminders()).unwrap().replace("\",\"", "\", \"");
    for row in [
        format!("| `retry` | `{waits}` |"),
        format!("| `when_failed` | `{}` |", rules.when_failed),
        format!("| `catch_up` | `{}` |", rules.catch_up),
        format!("| `circuit_by` | `{}` |", format!("{:?}", rules.circuit_by).to_lowercase()),
    ] {
        assert!(page.contains(&row), "{row}");
    }
    for name in ReminderStateName::ALL
        .map(ReminderStateName::name)
        .iter()
        .chain(&StopReason::ALL.map(StopReason::name))
    {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}
