//! What happened to circuits.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{Attribution, Cause, Change, Command, Epoch, Mode, Status, Timestamp};
use breakerbox_gateway::objects::PastChange;
use breakerbox_gateway::queue::records::{Page, PageOf};

use super::World;

fn change(key: &str, epoch: u64, at: Timestamp) -> PastChange {
    let by = Attribution::new("ops", "maintenance").unwrap();
    let cause = match epoch % 3 {
        0 => Cause::ProbeFailed,
        1 => Cause::CoolOffOver,
        _ => Cause::Command { command: Command::ForceOpen, by: by.clone() },
    };
    let change = Change {
        from: Status::Closed,
        to: match epoch % 3 {
            0 => Status::Open,
            1 => Status::HalfOpen,
            _ => Status::Disabled,
        },
        at,
        epoch: Epoch(epoch),
        cause,
        retry_at: (epoch.is_multiple_of(2)).then_some(at + Duration::from_secs(30)),
        trips: 3,
        mode: if epoch % 3 == 2 { Mode::ForcedOpen(by) } else { Mode::Automatic },
    };
    PastChange { key: Arc::from(key), change }
}

/// All of a listing, by pages of two.
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

pub(crate) async fn each_change_is_remembered_once(world: &mut World) {
    let at = world.now();
    let changes: Vec<_> = (1..=7).map(|epoch| change("acme https://a.example/é", epoch, at)).collect();
    assert_eq!(world.records.append_history(changes[..5].to_vec()).await.unwrap(), 5);
    let mut again = changes.clone();
    again[0].change.trips = 99;
    assert_eq!(world.records.append_history(again).await.unwrap(), 2, "the first word counts");
    world.records.append_history(vec![change("acme https://a.example/", 9, at)]).await.unwrap();
    world.restart().await;
    let key = "acme https://a.example/é";
    let mut expected = changes;
    expected.reverse();
    let records = &world.records;
    let found = all(async |page| records.circuit_history(key, &page).await.unwrap()).await;
    assert_eq!(found, expected);
}

pub(crate) async fn changes_are_listed_by_time_and_forgotten(world: &mut World) {
    let start = world.now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    // Several at the same moment, of one key and of others.
    let mut changes = Vec::new();
    for second in 0..4 {
        for (key, epoch) in [("a", second * 10), ("b", second * 10), ("b", second * 10 + 1)] {
            changes.push(change(key, epoch, at(second)));
        }
    }
    world.records.append_history(changes.clone()).await.unwrap();
    changes.reverse();
    let records = &world.records;
    let list = async |from, until| all(async |page| records.history(from, until, &page).await.unwrap()).await;
    assert_eq!(list(None, None).await, changes);
    assert_eq!(list(Some(at(1)), Some(at(3))).await, changes[3..9]);
    assert_eq!(records.prune_history(at(2), 4).await.unwrap(), 4);
    assert_eq!(records.prune_history(at(2), 4).await.unwrap(), 2);
    assert_eq!(records.prune_history(at(2), 4).await.unwrap(), 0);
    assert_eq!(list(None, None).await, changes[..6]);
}
