//! The scheduler in virtual time, with a wall clock that can be set. Its reminder store is in memory, and has one
//! reminder whose runs are delivered immediately.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_gateway::dispatch::Scheduler;
use breakerbox_gateway::telemetry::Metrics;
use breakerbox_model::objects::{Id, ReminderId, TenantId};
use breakerbox_model::reminder::{
    Action, CatchUp, Cron, Decision, DueReminder, OpenRun, ReminderVersion, Repeat, RunResult, Schedule, Step,
};
use breakerbox_storage::clock::WallClock;
use breakerbox_storage::{AppliedDecisions, ApplyError, QueueError, ReminderStore};
use tokio::time::Instant;

use super::site::Site;
use super::{SECOND, site};

const MINUTE: Duration = Duration::from_secs(60);

/// A wall clock that follows virtual time, and can be set.
#[derive(Clone)]
struct Wall {
    began: Instant,
    at: Timestamp,
    /// The total number of microseconds by which the clock was set forward.
    set: Arc<AtomicI64>,
}

impl Wall {
    fn new(at: &str) -> Self {
        Self { began: Instant::now(), at: time(at), set: Arc::default() }
    }

    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from((self.at + self.began.elapsed()).as_micros()).unwrap();
        Timestamp::from_micros((elapsed + self.set.load(Ordering::Relaxed)).unsigned_abs())
    }

    fn put_forward(&self, by: Duration) {
        self.set.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::Relaxed);
    }

    fn put_back(&self, by: Duration) {
        self.set.fetch_sub(i64::try_from(by.as_micros()).unwrap(), Ordering::Relaxed);
    }
}

fn time(text: &str) -> Timestamp {
    let at: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_micros(at.as_microsecond().unsigned_abs())
}

/// A reminder store with one reminder.
struct Diary {
    wall: Wall,
    page: Mutex<Page>,
}

struct Page {
    due: DueReminder,
    look_at: Option<Timestamp>,
    /// The scheduled time of each run, and the wall-clock time when it was fired.
    fired: Vec<(Timestamp, Timestamp)>,
    looks: u32,
    /// Whether the store withholds due reminders from the scheduler.
    hides: bool,
    /// The number of further writes that fail.
    fails: u32,
}

#[async_trait]
impl ReminderStore for Diary {
    async fn next_check_at(&self) -> Result<Option<Timestamp>, QueueError> {
        Ok(self.page.lock().unwrap().look_at)
    }

    async fn due_reminders(&self, until: Timestamp, _: usize) -> Result<Vec<DueReminder>, QueueError> {
        let mut page = self.page.lock().unwrap();
        page.looks += 1;
        let is_due = !page.hides && page.look_at.is_some_and(|at| at <= until);
        Ok(is_due.then(|| page.due.clone()).into_iter().collect())
    }

    async fn apply_decisions(&self, steps: Vec<Decision>) -> Result<AppliedDecisions, ApplyError> {
        let mut page = self.page.lock().unwrap();
        if page.fails > 0 {
            page.fails -= 1;
            return Err(ApplyError::DiskReserve { free: 0, reserve: 1 });
        }
        let mut applied = AppliedDecisions::default();
        for decision in steps {
            assert_eq!(decision.version, page.due.version);
            page.due.version = ReminderVersion(page.due.version.0 + 1);
            page.due.last_at = decision.last_at;
            (page.due.run, page.due.request) = (OpenRun::None, None);
            match decision.action {
                Action::Step(Step::Fire { run, scheduled_at, .. }) => {
                    let now = self.wall.now();
                    page.fired.push((scheduled_at, now));
                    page.due.runs = run;
                    page.due.run = OpenRun::Ended { how: RunResult::Delivered, first_sent_at: Some(now) };
                    page.look_at = Some(Timestamp::ZERO);
                    applied.fired += 1;
                }
                Action::Step(Step::Wait(until)) => page.look_at = Some(until),
                Action::Step(Step::Stop(_) | Step::Finish) | Action::NoStep => page.look_at = None,
            }
        }
        Ok(applied)
    }
}

struct Rig {
    wall: Wall,
    diary: Arc<Diary>,
    site: Site,
}

impl Rig {
    fn new(wall: Wall, schedule: Schedule, catch_up: CatchUp) -> Self {
        let site = site();
        let tenant: TenantId = site.tenant("acme");
        let look_at = schedule.first();
        let due = DueReminder {
            id: ReminderId(Id::from_number(1).unwrap()),
            tenant,
            version: ReminderVersion(1),
            is_active: true,
            schedule,
            catch_up: Some(catch_up),
            runs: 0,
            last_at: None,
            request: None,
            run: OpenRun::None,
        };
        let page = Page { due, look_at, fired: Vec::new(), looks: 0, hides: false, fails: 0 };
        let page = Mutex::new(page);
        let diary = Arc::new(Diary { wall: wall.clone(), page });
        let clock: WallClock = {
            let wall = wall.clone();
            Arc::new(move || wall.now())
        };
        let metrics = Arc::new(Metrics::new());
        let (directory, dispatch) = (Arc::clone(&site.directory), Arc::clone(&site.dispatch));
        let scheduler = Scheduler::new(diary.clone(), directory, dispatch, metrics, clock);
        tokio::spawn(scheduler.run());
        Self { wall, diary, site }
    }

    fn fired(&self) -> Vec<(Timestamp, Timestamp)> {
        self.diary.page.lock().unwrap().fired.clone()
    }

    /// Returns the scheduled times of the runs, in minutes since this time.
    fn minutes(&self, since: Timestamp) -> Vec<u64> {
        self.fired().iter().map(|(scheduled, _)| scheduled.since(since).as_secs() / 60).collect()
    }
}

fn every(minutes: u32, first_at: Timestamp) -> Schedule {
    Schedule { first_at, repeat: Repeat::Every(minutes * MINUTE), ends_at: None, max_runs: None }
}

#[tokio::test(start_paused = true)]
async fn runs_are_fired_on_time_and_nobody_looks_in_between() {
    let wall = Wall::new("2026-12-31T23:30:00Z");
    let rig = Rig::new(wall.clone(), every(10, wall.at + 10 * MINUTE), CatchUp::All);
    tokio::time::sleep(65 * MINUTE).await;
    assert_eq!(rig.minutes(wall.at), [10, 20, 30, 40, 50, 60], "over the year's end as well");
    for (scheduled, fired) in rig.fired() {
        assert!(fired >= scheduled && fired.since(scheduled) < SECOND, "{scheduled:?} {fired:?}");
    }
    let looks = rig.diary.page.lock().unwrap().looks;
    assert!(looks <= 6 * 4 + 2, "{looks} looks");
    drop(rig.site);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_loses_no_run_and_doubles_none() {
    // The clock is set by an hour after 25 minutes. Occurrences are named by their minute.
    for (is_forward, catch_up, expected) in [
        (true, CatchUp::All, vec![10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110]),
        (true, CatchUp::Latest, vec![10, 20, 80, 90, 100, 110]),
        (false, CatchUp::All, vec![10, 20]),
        (false, CatchUp::Latest, vec![10, 20]),
    ] {
        let wall = Wall::new("2026-03-01T12:00:00Z");
        let rig = Rig::new(wall.clone(), every(10, wall.at + 10 * MINUTE), catch_up);
        tokio::time::sleep(25 * MINUTE).await;
        if is_forward {
            rig.wall.put_forward(60 * MINUTE);
        } else {
            rig.wall.put_back(60 * MINUTE);
        }
        tokio::time::sleep(30 * MINUTE).await;
        assert_eq!(rig.minutes(wall.at), expected, "forward: {is_forward}, {catch_up}");
        if !is_forward {
            // It is five to twelve again. From half past twelve on, runs continue as scheduled.
            tokio::time::sleep(60 * MINUTE).await;
            assert_eq!(rig.minutes(wall.at), [10, 20, 30, 40, 50], "{catch_up}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_night_on_which_clocks_change_has_each_run_once() {
    // Three hours around each change, with a run at half past two (in a gap, in an overlap) and every half hour through
    // both.
    for (zone, cron, from, expected) in [
        ("Europe/Berlin", "30 2 * * *", "2026-03-29T00:00:00Z", &["2026-03-29T01:00:00Z"][..]),
        ("Europe/Berlin", "30 2 * * *", "2026-10-25T00:00:00Z", &["2026-10-25T00:30:00Z"]),
        ("America/New_York", "30 2 * * *", "2026-03-08T06:00:00Z", &["2026-03-08T07:00:00Z"]),
        ("America/New_York", "30 1 * * *", "2026-11-01T05:00:00Z", &["2026-11-01T05:30:00Z"]),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T15:00:00Z", &["2026-10-03T15:30:00Z"]),
        (
            "Europe/Berlin",
            "30 * * * *",
            "2026-10-25T00:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"],
        ),
    ] {
        let wall = Wall::new(from);
        let cron = Repeat::Cron(Cron::new(cron, zone).unwrap());
        let schedule = Schedule::new(None, cron, None, None, wall.at).unwrap();
        let rig = Rig::new(wall, schedule, CatchUp::All);
        tokio::time::sleep(180 * MINUTE).await;
        let scheduled: Vec<_> = rig.fired().iter().map(|(scheduled, _)| *scheduled).collect();
        let expected: Vec<_> = expected.iter().map(|text| time(text)).collect();
        assert_eq!(scheduled, expected, "{zone}");
    }
}

/// Captures the log of this thread.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logged {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let logged = Self::default();
        let writer = logged.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (logged, tracing::subscriber::set_default(subscriber))
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(String::from).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_reminder_that_stops_is_a_warning_once_it_is_written() {
    let (logged, _guard) = Logged::start();
    let wall = Wall::new("2026-03-01T12:00:00Z");
    let rig = Rig::new(wall.clone(), every(10, wall.at + 60 * MINUTE), CatchUp::All);
    rig.diary.page.lock().unwrap().fails = 2;
    tokio::time::sleep(MINUTE).await;
    rig.diary.page.lock().unwrap().due.run = OpenRun::Ended { how: RunResult::Gone, first_sent_at: None };
    rig.diary.page.lock().unwrap().look_at = Some(Timestamp::ZERO);
    rig.site.directory.reminders_changed();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(rig.diary.page.lock().unwrap().look_at, None, "it has stopped");
    let lines = logged.lines();
    let stopped: Vec<_> = lines.iter().filter(|line| line.contains("reminder stopped")).collect();
    assert_eq!(stopped.len(), 1, "{lines:#?}");
    assert!(stopped[0].contains(" WARN ") && stopped[0].contains("rem_"), "{}", stopped[0]);
    assert!(!lines.iter().any(|line| line.contains(" ERROR ")), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_bell_is_enough_to_look() {
    let wall = Wall::new("2026-03-01T12:00:00Z");
    let rig = Rig::new(wall.clone(), every(10, wall.at + 60 * MINUTE), CatchUp::All);
    tokio::time::sleep(MINUTE).await;
    rig.diary.page.lock().unwrap().due.request = Some(breakerbox_model::reminder::ClientRequest::RunNow);
    rig.diary.page.lock().unwrap().look_at = Some(Timestamp::ZERO);
    rig.site.directory.reminders_changed();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(rig.fired().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_due_and_not_to_be_had_is_not_looked_for_all_the_time() {
    let wall = Wall::new("2026-03-01T12:00:00Z");
    let rig = Rig::new(wall.clone(), every(10, wall.at + MINUTE), CatchUp::All);
    rig.diary.page.lock().unwrap().hides = true;
    tokio::time::sleep(2 * MINUTE).await;
    let looks = rig.diary.page.lock().unwrap().looks;
    assert!(looks <= 70, "{looks} looks in a minute");
    rig.diary.page.lock().unwrap().hides = false;
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(rig.fired().len(), 1);
}
