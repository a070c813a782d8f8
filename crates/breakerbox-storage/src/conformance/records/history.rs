//! The stored history of circuits.

use std::sync::Arc;
use std::time::Duration;

use crate::records::{ChangeFilter, ObservedChange, Page, PageOf};
use breakerbox_core::{
    Attribution, Cause, Change, CircuitStatus, Epoch, Mode, OverrideCommand, Timestamp, Totals,
};
use breakerbox_model::objects::PastChange;

use super::world::World;

pub fn change(key: &str, epoch: u64, at: Timestamp) -> PastChange {
    let by = Attribution::new("ops", "maintenance").unwrap();
    let cause = match epoch % 3 {
        0 => Cause::ProbeFailed,
        1 => Cause::CoolOffOver,
        _ => Cause::Override { command: OverrideCommand::ForceOpen, by: by.clone() },
    };
    let change = {
        let mut changed = Change::new(
            CircuitStatus::Closed,
            match epoch % 3 {
                0 => CircuitStatus::Open,
                1 => CircuitStatus::HalfOpen,
                _ => CircuitStatus::Disabled,
            },
            at,
            Epoch(epoch),
            cause,
        );
        changed.retry_at = (epoch.is_multiple_of(2)).then_some(at + Duration::from_secs(30));
        changed.trips = 3;
        changed.last_success = (epoch > 3).then_some(at);
        changed.evidence = (epoch > 4).then(|| {
            Arc::new({
                let mut totals = Totals::default();
                totals.failures = epoch;
                totals
            })
        });
        changed.mode = if epoch % 3 == 2 { Mode::ForcedOpen(by) } else { Mode::Automatic };
        changed
    };
    PastChange { key: Arc::from(key), change }
}

/// Converts changes to observed changes that cause no notifications.
fn heard(changes: &[PastChange]) -> Vec<ObservedChange> {
    changes.iter().cloned().map(ObservedChange::from).collect()
}

/// Returns all items of a listing, read in pages of two.
async fn all(mut list: impl AsyncFnMut(PageOf) -> Page<PastChange>) -> Vec<PastChange> {
    let mut page = PageOf::first(2);
    let mut found = Vec::new();
    loop {
        let answer = list(page).await;
        found.extend(answer.items);
        let Some(next) = answer.next else { return found };
        page = PageOf::after(next, 2);
    }
}

pub async fn each_change_is_remembered_once(world: &mut World) {
    let at = world.now();
    let changes: Vec<_> = (1..=7).map(|epoch| change("acme https://a.example/é", epoch, at)).collect();
    assert_eq!(world.records.append_history(heard(&changes[..5])).await.unwrap(), 5);
    let mut again = changes.clone();
    again[0].change.trips = 99;
    assert_eq!(world.records.append_history(heard(&again)).await.unwrap(), 2, "the first word counts");
    world.records.append_history(heard(&[change("acme https://a.example/", 9, at)])).await.unwrap();
    world.restart().await;
    let key = "acme https://a.example/é";
    let mut expected = changes;
    expected.reverse();
    let records = &world.records;
    let found = all(async |page| records.circuit_history(key, &page).await.unwrap()).await;
    assert_eq!(found, expected);
}

pub async fn changes_are_listed_by_time_and_forgotten(world: &mut World) {
    let start = world.now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    // Several changes at the same time, of one key and of others.
    let mut changes = Vec::new();
    for second in 0..4 {
        for (key, epoch) in [("a", second * 10), ("b", second * 10), ("b", second * 10 + 1)] {
            changes.push(change(key, epoch, at(second)));
        }
    }
    world.records.append_history(heard(&changes)).await.unwrap();
    changes.reverse();
    let records = &world.records;
    let list = async |from, until| {
        let filter = ChangeFilter { from, until, ..ChangeFilter::default() };
        all(async |page| records.history(&filter, &page).await.unwrap()).await
    };
    assert_eq!(list(None, None).await, changes);
    assert_eq!(list(Some(at(1)), Some(at(3))).await, changes[3..9]);
    assert_eq!(records.prune_history(at(2), 4).await.unwrap(), 4);
    assert_eq!(records.prune_history(at(2), 4).await.unwrap(), 2);
    assert_eq!(records.prune_history(at(2), 4).await.unwrap(), 0);
    assert_eq!(list(None, None).await, changes[..6]);
}

pub async fn changes_are_found_by_all_that_can_be_said(world: &mut World) {
    for tenant in ["acme", "acme-2", "other"] {
        world.tenant(tenant).await;
    }
    let start = world.now();
    let keys = ["acme", "acme https://a.example/", "acme-2 https://a.example/", "acme/reminders", "other"];
    let mut changes = Vec::new();
    for epoch in 0..12 {
        let at = start + Duration::from_secs(epoch);
        changes.extend(keys.map(|key| change(key, epoch, at)));
    }
    world.records.append_history(changes.iter().cloned().map(ObservedChange::from).collect()).await.unwrap();
    world.restart().await;
    changes.sort_by(|a, b| {
        (b.change.at, &b.key, b.change.epoch.0).cmp(&(a.change.at, &a.key, a.change.epoch.0))
    });
    let none = ChangeFilter::default;
    let acme = || Some("acme".parse().unwrap());
    let records = &world.records;
    for (filter, fits) in [
        (none(), (|_| true) as fn(&PastChange) -> bool),
        (ChangeFilter { tenant: acme(), ..none() }, |past| past.key.split([' ', '/']).next() == Some("acme")),
        (ChangeFilter { tenant: Some("nobody".parse().unwrap()), ..none() }, |_| false),
        (ChangeFilter { circuit: Some("acme".into()), ..none() }, |past| *past.key == *"acme"),
        (ChangeFilter { circuit: Some("other".into()), tenant: acme(), ..none() }, |_| false),
        (ChangeFilter { to: Some(CircuitStatus::Open), ..none() }, |past| {
            past.change.to == CircuitStatus::Open
        }),
        (ChangeFilter { to: Some(CircuitStatus::Disabled), tenant: acme(), ..none() }, |past| {
            past.change.to == CircuitStatus::Disabled && past.key.split([' ', '/']).next() == Some("acme")
        }),
        (
            ChangeFilter {
                to: Some(CircuitStatus::HalfOpen),
                circuit: Some("acme/reminders".into()),
                ..none()
            },
            |past| past.change.to == CircuitStatus::HalfOpen && *past.key == *"acme/reminders",
        ),
    ] {
        let expected: Vec<_> = changes.iter().filter(|past| fits(past)).cloned().collect();
        let found = all(async |page| records.history(&filter, &page).await.unwrap()).await;
        assert_eq!(found, expected, "{filter:?}");
        let times = (start + Duration::from_secs(3), start + Duration::from_secs(7));
        let within = ChangeFilter { from: Some(times.0), until: Some(times.1), ..filter };
        let expected: Vec<_> =
            expected.into_iter().filter(|past| (times.0..times.1).contains(&past.change.at)).collect();
        let found = all(async |page| records.history(&within, &page).await.unwrap()).await;
        assert_eq!(found, expected, "{within:?}");
    }
}

/// Matches may be far apart, so a page, which reads a bounded number of rows, may be short or empty.
pub async fn a_page_of_changes_looks_at_its_share(world: &mut World) {
    let at = world.now();
    let mut changes: Vec<_> = (0..3_000).map(|number| change("acme", 3 * number + 7, at)).collect();
    changes[0].change.to = CircuitStatus::Closed;
    world.records.append_history(changes.iter().cloned().map(ObservedChange::from).collect()).await.unwrap();
    let filter = ChangeFilter { to: Some(CircuitStatus::Closed), ..ChangeFilter::default() };
    let first = world.records.history(&filter, &PageOf::first(2)).await.unwrap();
    assert_eq!(first.items, []);
    let rest = PageOf::after(first.next.expect("it has not seen everything"), 2);
    let rest = world.records.history(&filter, &rest).await.unwrap();
    assert_eq!((rest.items, rest.next), (vec![changes[0].clone()], None));
}
