//! Tests of the next step, as tables.

use super::*;
use crate::reminder::{RunResult, Step, StopReason};

/// A schedule of every ten minutes, starting at minute 0, after this many runs; `last` is the minute of the
/// occurrence that the latest run serves.
fn progress(catch_up: CatchUp, runs: u32, last: Option<u64>) -> Progress {
    Progress { runs, last: last.map(minute), ..fresh(from(minute(0), every(600)), catch_up) }
}

fn fire(run: u32, at: u64, skipped: u32) -> Step {
    Step::Fire { run, scheduled_at: minute(at), skipped }
}

const fn wait(at: u64) -> Step {
    Step::Wait(minute(at))
}

use CatchUp::{All, Latest};

#[test]
fn when_it_is_due() {
    let before = minute(0).before(Duration::from_secs(1));
    assert_eq!(progress(All, 0, None).due(before), wait(0));
    let table = [
        (All, 0, None, 0, fire(1, 0, 0)),
        (Latest, 0, None, 0, fire(1, 0, 0)),
        // On time.
        (All, 1, Some(0), 10, fire(2, 10, 0)),
        (Latest, 1, Some(0), 10, fire(2, 10, 0)),
        // Too early.
        (All, 1, Some(0), 9, wait(10)),
        (Latest, 1, Some(0), 9, wait(10)),
        // After downtime.
        (All, 1, Some(0), 45, fire(2, 10, 0)),
        (All, 2, Some(10), 45, fire(3, 20, 0)),
        (All, 4, Some(30), 45, fire(5, 40, 0)),
        (All, 5, Some(40), 45, wait(50)),
        (Latest, 1, Some(0), 45, fire(2, 40, 3)),
        (Latest, 2, Some(40), 45, wait(50)),
        (Latest, 0, None, 45, fire(1, 40, 4)),
        // The clock was set back.
        (All, 5, Some(40), 0, wait(50)),
        (Latest, 5, Some(40), 0, wait(50)),
    ];
    for (catch_up, runs, last, now, expected) in table {
        let progress = progress(catch_up, runs, last);
        assert_eq!(progress.due(minute(now)), expected, "{catch_up:?}, {runs} runs, {last:?}, at {now}");
    }
}

#[test]
fn when_a_run_has_ended() {
    use RunResult::{Cancelled, Delivered, Exhausted, Expired, Gone, Rejected};
    let stop = |reason| Step::Stop(reason);
    let table = [
        // The run of minute 10: its result, first sent at, ended at, the step with `All`, the step with `Latest`, and
        // the occurrence that the run stood for with `Latest`.
        (Delivered, Some(10), 11, wait(20), wait(20), 10),
        (Cancelled, None, 11, wait(20), wait(20), 10),
        // The run was parked until minute 35.
        (Delivered, Some(35), 36, fire(3, 20, 0), wait(40), 30),
        (Delivered, Some(40), 40, fire(3, 20, 0), wait(50), 40),
        // The run was sent at once, and took long.
        (Delivered, Some(10), 45, fire(3, 20, 0), fire(3, 40, 2), 10),
        // The run was parked, and took long.
        (Delivered, Some(25), 45, fire(3, 20, 0), fire(3, 40, 1), 20),
        (Cancelled, None, 45, fire(3, 20, 0), fire(3, 40, 2), 10),
        // The clock was set back in between: no occurrence is counted again.
        (Delivered, Some(3), 4, wait(20), wait(20), 10),
        (Rejected, Some(10), 45, stop(StopReason::Rejected), stop(StopReason::Rejected), 10),
        (Gone, Some(10), 45, stop(StopReason::Gone), stop(StopReason::Gone), 10),
        (Exhausted, Some(10), 14, stop(StopReason::Failed), stop(StopReason::Failed), 10),
        (Expired, None, 45, stop(StopReason::Failed), stop(StopReason::Failed), 10),
    ];
    for (how, sent, now, all, latest, stood_for) in table {
        let (sent, now) = (sent.map(minute), minute(now));
        let ended = |catch_up| progress(catch_up, 2, Some(10)).ended(how, sent, now);
        assert_eq!((ended(All), ended(Latest)), (all, latest), "{how:?}, {sent:?}, {now:?}");
        assert_eq!(progress(All, 2, Some(10)).last_when_ended(sent), Some(minute(10)));
        assert_eq!(progress(Latest, 2, Some(10)).last_when_ended(sent), Some(minute(stood_for)), "{sent:?}");
    }
}

#[test]
fn a_failure_need_not_be_the_end() {
    let goes_on = Progress { when_failed: WhenFailed::NextRun, ..progress(All, 2, Some(10)) };
    for how in [RunResult::Exhausted, RunResult::Expired] {
        assert_eq!(goes_on.ended(how, Some(minute(10)), minute(14)), wait(20), "{how:?}");
        assert_eq!(goes_on.ended(how, Some(minute(10)), minute(24)), fire(3, 20, 0), "{how:?}");
    }
    for (how, reason) in [(RunResult::Rejected, StopReason::Rejected), (RunResult::Gone, StopReason::Gone)] {
        assert_eq!(goes_on.ended(how, None, minute(14)), Step::Stop(reason), "{how:?}");
    }
}

#[test]
fn a_one_off_runs_once() {
    for catch_up in [All, Latest] {
        let fresh = fresh(from(minute(10), Repeat::Once), catch_up);
        assert_eq!(fresh.due(minute(9)), wait(10));
        assert_eq!(fresh.due(minute(10)), fire(1, 10, 0));
        assert_eq!(fresh.due(minute(9_999)), fire(1, 10, 0), "late, but not lost");
        let open = Progress { runs: 1, last: Some(minute(10)), ..fresh };
        assert_eq!(open.ended(RunResult::Delivered, Some(minute(30)), minute(31)), Step::Finish);
        assert_eq!(open.ended(RunResult::Cancelled, None, minute(31)), Step::Finish);
        assert_eq!(open.ended(RunResult::Exhausted, None, minute(31)), Step::Stop(StopReason::Failed));
        assert_eq!(open.due(minute(31)), Step::Finish);
        assert_eq!(open.due(minute(0)), Step::Finish, "also if the clock was put back");
    }
}

#[test]
fn runs_are_counted() {
    let limited = |catch_up, runs, last| {
        let mut progress = progress(catch_up, runs, last);
        progress.schedule.max_runs = Some(3);
        progress
    };
    for catch_up in [All, Latest] {
        assert_eq!(limited(catch_up, 2, Some(10)).due(minute(20)), fire(3, 20, 0));
        assert_eq!(limited(catch_up, 3, Some(20)).due(minute(90)), Step::Finish);
        let last = limited(catch_up, 3, Some(20));
        assert_eq!(last.ended(RunResult::Delivered, Some(minute(20)), minute(21)), Step::Finish);
        assert_eq!(last.ended(RunResult::Gone, Some(minute(20)), minute(21)), Step::Stop(StopReason::Gone));
        assert_eq!(last.resumed(minute(90)), Step::Finish);
    }
    // Skipped occurrences don't count as runs.
    assert_eq!(limited(Latest, 2, Some(10)).due(minute(500)), fire(3, 500, 48));
}

#[test]
fn it_ends_at_its_end() {
    let ending = |catch_up, runs, last| {
        let mut progress = progress(catch_up, runs, last);
        progress.schedule.ends_at = Some(minute(30));
        progress
    };
    for catch_up in [All, Latest] {
        assert_eq!(ending(catch_up, 3, Some(20)).due(minute(30)), fire(4, 30, 0), "the end is included");
        assert_eq!(ending(catch_up, 4, Some(30)).due(minute(30)), Step::Finish);
        let ended = ending(catch_up, 4, Some(30)).ended(RunResult::Delivered, Some(minute(30)), minute(31));
        assert_eq!(ended, Step::Finish);
    }
    // Downtime beyond the end: occurrences before the end are still due.
    assert_eq!(ending(All, 1, Some(0)).due(minute(99)), fire(2, 10, 0));
    assert_eq!(ending(Latest, 1, Some(0)).due(minute(99)), fire(2, 30, 2));
    // A run that was parked beyond the end stands for the last occurrence.
    let parked = ending(Latest, 2, Some(10)).ended(RunResult::Delivered, Some(minute(99)), minute(99));
    assert_eq!(parked, Step::Finish);
}

#[test]
fn a_pause_is_skipped() {
    for catch_up in [All, Latest] {
        // The number of runs, the latest, resumed at, the next step, and the occurrence up to which all are done.
        let table = [
            (1, Some(0), 45, wait(50), Some(40)),
            (1, Some(0), 5, wait(10), Some(0)),
            (0, None, 45, wait(50), Some(40)),
            // An occurrence at exactly this time is not skipped.
            (1, Some(0), 50, fire(2, 50, 0), Some(40)),
            (0, None, 0, fire(1, 0, 0), None),
            // The clock was set back during the pause.
            (6, Some(50), 20, wait(60), Some(50)),
        ];
        for (runs, last, now, expected, done_with) in table {
            let paused = progress(catch_up, runs, last);
            assert_eq!(paused.resumed(minute(now)), expected, "{catch_up:?}, {last:?}, at {now}");
            let done_with = done_with.map(minute);
            assert_eq!(paused.last_when_resumed(minute(now)), done_with, "{catch_up:?}, {last:?}, at {now}");
            // With this value stored, the step is the same when the time has come, and nothing from the pause is
            // fired.
            let resumed = Progress { last: done_with, ..paused };
            assert_eq!(resumed.due(minute(now)), expected, "{catch_up:?}, {last:?}, at {now}");
        }
        let once = fresh(from(minute(10), Repeat::Once), catch_up);
        assert_eq!(once.resumed(minute(5)), wait(10));
        assert_eq!(once.resumed(minute(45)), fire(1, 10, 0), "a one-off is not skipped");
        assert_eq!(Progress { runs: 1, last: Some(minute(10)), ..once }.resumed(minute(45)), Step::Finish);
        let mut ending = progress(catch_up, 1, Some(0));
        ending.schedule.ends_at = Some(minute(30));
        assert_eq!(ending.resumed(minute(45)), Step::Finish, "it ended in the pause");
    }
}

#[test]
fn names_are_read_back() {
    for reason in StopReason::ALL {
        assert_eq!(reason.to_string().parse(), Ok(reason));
        assert!(!reason.text().is_empty());
    }
    for each in CatchUp::ALL {
        assert_eq!(each.to_string().parse(), Ok(each));
    }
    for each in WhenFailed::ALL {
        assert_eq!(each.to_string().parse(), Ok(each));
    }
    let wrong = [
        "each".parse::<CatchUp>().unwrap_err().to_string(),
        "".parse::<WhenFailed>().unwrap_err().to_string(),
        "GONE".parse::<StopReason>().unwrap_err().to_string(),
    ];
    assert_eq!(
        wrong,
        ["must be all or latest", "must be stop or next_run", "must be rejected, gone, failed or unreadable"]
    );
}
