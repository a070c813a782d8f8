//! Store outages: the store is killed, paused, emptied, failed over or disconnected, with real servers and
//! separate processes.
//!
//! | item | description |
//! | --- | --- |
//! | [`Case`] | the kinds of outages |
//! | `site` | the server behind a proxy, and the outages of both |
//! | `scene` | one fleet: its workers, circuits in every state, continuous calls |
//! | [`Setting`] | a fleet's `on_store_loss` and consistency mode |
//! | [`Report`] | the observations, and which of them violate the guarantee |
//!
//! The guarantee: calls are decided according to `on_store_loss`; no acquire waits longer than the store
//! timeout; the loss is reported; within five seconds after the store's return, all processes agree with it and
//! with each other; circuits that are open, forced or disabled stay so all the time. A store that answers reads
//! and refuses writes is reported within a second, and meanwhile each process's circuits recover on their own.
//! Four fleets, one for each [`Setting`], go through the same outage at the same time, each with its own
//! circuits.

mod case;
mod report;
mod scene;
mod setting;
mod site;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use breakerbox::store::Store;
use futures_util::future::try_join_all;
use tokio::time::sleep;

pub use self::case::Case;
pub use self::report::Report;
use self::scene::Scene;
pub use self::setting::Setting;
use self::site::Site;
use crate::fleet::protocol::{Seen, Tally};
use crate::fleet::worker::OnLoss;
use crate::fleet::{Kind, Receiver};

/// The timeout for steps without a guaranteed duration, so that a test can't hang.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// The interval at which a condition is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The interval at which the circuits' states are read during an outage.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// The minimum time for which an outage continues after every process has detected it.
const NOTICED_FOR: Duration = Duration::from_secs(1);

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of workers for each [`Setting`].
    pub workers: u32,
    /// The number of circuits that stay closed.
    pub closed: usize,
    /// The number of circuits that opened long before the outage.
    pub open: usize,
    /// The number of circuits that open just before the outage.
    pub late: usize,
    /// The number of circuits that are probed repeatedly.
    pub recovering: usize,
    /// The number of circuits that no process has acquired from before the outage.
    pub fresh: usize,
    /// The timeout for store requests.
    pub store_timeout: Duration,
    /// The minimum time for which the store is unavailable.
    pub away: Duration,
    /// The maximum allowed time until every process reports that the store rejects writes.
    pub notice_within: Duration,
    /// The maximum allowed time from the store's return until all processes agree about all circuits.
    pub agree_within: Duration,
    /// The time by which an acquire may exceed the store timeout. All processes share the machine's cores, so
    /// the measuring task itself may have to wait for a core.
    pub margin: Duration,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        workers: 4,
        closed: 30,
        open: 10,
        late: 3,
        recovering: 5,
        fresh: 5,
        store_timeout: Duration::from_millis(500),
        away: Duration::from_secs(10),
        notice_within: Duration::from_secs(1),
        agree_within: Duration::from_secs(5),
        margin: Duration::from_millis(250),
    };

    /// A small size that works on a machine of any speed. Durations are not checked, and the store timeout is
    /// so long that a busy store is not seen as lost.
    pub const SMALL: Self = Self {
        workers: 2,
        closed: 4,
        open: 2,
        late: 1,
        recovering: 1,
        fresh: 2,
        store_timeout: Duration::from_secs(3),
        away: Duration::from_secs(1),
        notice_within: WAIT_LIMIT,
        agree_within: WAIT_LIMIT,
        margin: WAIT_LIMIT,
    };
}

/// The state of a fleet before the outage.
struct Rest {
    /// The states of the circuits that must not change during the outage.
    shut: Vec<Seen>,
    /// The number of times that workers had reported the store as lost before the outage, as can happen on a
    /// busy machine. These losses are not attributed to the outage.
    losses: u64,
    overlaps: usize,
    forbidden_calls: usize,
}

/// A fleet's calls during the outage.
struct Away {
    noticed_after: Duration,
    /// The calls made before every process had detected the outage.
    before: Vec<Tally>,
    fresh: Tally,
    /// The calls made after every process had detected the outage, by group of circuits.
    calls: Vec<Tally>,
    recovered_alone_after: Option<Duration>,
}

/// Causes one outage of one store, for a fleet with each of these settings.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are in the reports.
pub async fn prove(
    program: &Path,
    kind: Kind,
    case: Case,
    settings: &[Setting],
    size: Size,
) -> Result<Vec<Report>> {
    let (mut site, receiver) = (Site::start(kind, case).await?, Receiver::start().await?);
    let url = site.url(case);
    let scenes = settings.iter().map(|setting| Scene::set(program, &url, &receiver, *setting, size));
    let mut scenes = try_join_all(scenes).await?;
    site.part()?;
    try_join_all(scenes.iter_mut().map(Scene::open_the_last)).await?;
    let store = site.look().await?;
    let mut rests = Vec::new();
    for scene in &scenes {
        rests.push(at_rest(scene, &*store, &receiver).await?);
    }
    drop(store);

    let began = Instant::now();
    site.begin(case)?;
    let mut away = Vec::new();
    if case.lasts() {
        away = try_join_all(scenes.iter_mut().map(|scene| notice(scene, began))).await?;
        let until = (began + size.away).max(Instant::now() + NOTICED_FOR);
        let strayed = try_join_all(
            scenes.iter().zip(&rests).map(|(scene, rest)| keep_looking(scene, &rest.shut, until)),
        );
        let strayed = strayed.await?;
        for ((scene, away), strayed) in scenes.iter_mut().zip(&mut away).zip(strayed) {
            ensure!(
                strayed.is_none(),
                "{}, {}: {}",
                case.name(),
                scene.setting.name(),
                strayed.unwrap_or_default()
            );
            away.calls = scene.end_calls().await?.into();
            scene.begin_calls().await?;
            if case.refuses_writes() && scene.setting.on_loss == OnLoss::Local {
                away.recovered_alone_after = Some(recover_alone(scene, &receiver).await?);
            }
        }
    }
    site.end(case)?;
    let (back, was_away) = (Instant::now(), began.elapsed());
    let looks = try_join_all(scenes.iter().map(|_| site.look())).await?;
    let mut away = away.into_iter();
    let ends = scenes.iter_mut().zip(rests).zip(looks).map(|((scene, rest), store)| {
        let away = away.next();
        let receiver = &receiver;
        async move {
            let mut report = Report::new(kind, case, scene.setting, size, was_away);
            if let Some(away) = away {
                report.note_away(away);
            }
            settle(scene, &rest, &*store, receiver, back, &mut report).await?;
            anyhow::Ok(report)
        }
    });
    try_join_all(ends).await
}

/// Waits until all processes agree and every circuit is in its initial state.
async fn at_rest(scene: &Scene, store: &dyn Store, receiver: &Receiver) -> Result<Rest> {
    let opened = async || {
        let (seen, keys) = (scene.seen().await?, scene.recovering());
        let is_open =
            |key: &String| seen.iter().all(|seen| seen.get(key).is_some_and(|seen| seen.status != "closed"));
        Ok(keys.iter().all(is_open).then_some(()))
    };
    within("failing destinations open their circuits", opened).await?;
    let mut last = None;
    let agree = async || {
        last = scene.differs(store).await?;
        Ok(last.is_none().then_some(()))
    };
    within("all agree before the trouble", agree).await.with_context(|| format!("{last:?}"))?;
    let (overlaps, forbidden_calls) = (scene.overlaps(receiver), scene.forbidden_calls(receiver));
    let (losses, setting) = (scene.losses().await?, scene.setting);
    ensure!(overlaps == 0 || losses > 0, "{overlaps} probes at once, and the store was there");
    let excused = losses > 0 && setting.on_loss == OnLoss::Admit;
    ensure!(
        forbidden_calls == 0 || excused,
        "{}: {forbidden_calls} calls to what is open, before the trouble, after {losses} losses",
        setting.name()
    );
    Ok(Rest { shut: scene.shut_now().await?, losses, overlaps, forbidden_calls })
}

/// Waits until every process has detected the outage. Meanwhile, acquires from circuits that no process knows.
async fn notice(scene: &mut Scene, began: Instant) -> Result<Away> {
    let noticing = async {
        within("the loss is reported", async || Ok(scene.is_degraded(0).await?.then_some(()))).await?;
        Ok(began.elapsed())
    };
    let (fresh, noticed_after) = tokio::try_join!(scene.call_fresh(), noticing)?;
    // From now on, every process that is called has detected the outage.
    let before = scene.end_calls().await?.into();
    scene.begin_calls().await?;
    Ok(Away { noticed_after, before, fresh, calls: Vec::new(), recovered_alone_after: None })
}

/// Makes the destinations recover while the store rejects writes. Returns the time until all circuits are
/// closed.
async fn recover_alone(scene: &Scene, receiver: &Receiver) -> Result<Duration> {
    let healed = Instant::now();
    scene.heal(receiver);
    within("circuits recover alone", async || Ok(scene.has_recovered().await?.then(|| healed.elapsed())))
        .await
}

/// Watches the states that must not change, until the given time. Returns a description of the first change, if
/// any.
async fn keep_looking(scene: &Scene, shut: &[Seen], until: Instant) -> Result<Option<String>> {
    while Instant::now() < until {
        if let Some(strayed) = strayed(scene, shut).await? {
            return Ok(Some(strayed));
        }
        sleep(SAMPLE_EVERY).await;
    }
    Ok(None)
}

async fn strayed(scene: &Scene, shut: &[Seen]) -> Result<Option<String>> {
    for (worker, seen) in scene.seen().await?.iter().enumerate() {
        if let Some(was) = shut.iter().find(|was| seen.get(&was.key) != Some(was)) {
            let is = seen.get(&was.key);
            return Ok(Some(format!("worker {worker} had {was:?}, and has {is:?}")));
        }
    }
    Ok(None)
}

/// Waits until the fleet has recovered after the store's return, and adds the observations to the report.
async fn settle(
    scene: &mut Scene,
    rest: &Rest,
    store: &dyn Store,
    receiver: &Receiver,
    back: Instant,
    report: &mut Report,
) -> Result<()> {
    let connected = async || Ok(scene.is_connected().await?.then(|| back.elapsed()));
    let mut last = None;
    let agreed = async || {
        last = scene.differs(store).await?;
        // The time is read before the check, so that it is not later than the agreement.
        let after = back.elapsed();
        Ok((last.is_none() && scene.is_connected().await?).then_some(after))
    };
    let looking = async {
        let (connected, agreed) = tokio::try_join!(within("the return is reported", connected), async {
            within("all agree after the return", agreed).await
        },)?;
        anyhow::Ok((connected, agreed))
    };
    (report.connected_after, report.agreed_after) = looking.await.with_context(|| format!("{last:?}"))?;
    report.strayed = strayed(scene, &rest.shut).await?;
    report.overlaps = scene.overlaps(receiver) - rest.overlaps;
    let called = scene.forbidden_calls(receiver);
    scene.heal(receiver);
    within("what recovers closes", async || Ok(scene.has_recovered().await?.then_some(()))).await?;
    let mut last = None;
    let agree = async || {
        last = scene.differs(store).await?;
        Ok(last.is_none().then_some(()))
    };
    within("all agree when all is well", agree).await.with_context(|| format!("{last:?}"))?;
    report.strayed = report.strayed.take().or(strayed(scene, &rest.shut).await?);
    let calls = scene.end_calls().await?;
    calls.iter().for_each(|tally| report.note_ask(tally));
    report.losses = scene.losses().await? - rest.losses;
    let in_all = scene.forbidden_calls(receiver);
    // During the outage, `admit` admits these calls.
    report.forbidden_calls =
        if scene.setting.on_loss == OnLoss::Admit { in_all - called } else { in_all - rest.forbidden_calls };
    Ok(())
}

/// Polls until `look` returns a value, and returns that value. Returns an error after [`WAIT_LIMIT`].
async fn within<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let limit = Instant::now() + WAIT_LIMIT;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() > limit {
            bail!("{what}: not within {WAIT_LIMIT:?}");
        }
        sleep(LOOK_EVERY).await;
    }
}
