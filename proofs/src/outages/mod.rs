//! What happens when the store is away: killed, paused, emptied, failed over, cut off, with real servers and separate
//! processes.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Case`] | what can become of a store |
//! | `site` | the server behind a proxy, and what becomes of them |
//! | `scene` | one fleet: its workers, circuits in every state, calls all the time |
//! | [`Setting`] | what a fleet does while the store is away, and its consistency mode |
//! | [`Report`] | what was seen, and what of it is against the promise |
//!
//! What is promised: calls go on as `on_store_loss` says; no ask waits longer than the store may take; the loss is reported;
//! when the store is back, all processes agree with it and with each other within five seconds; what was open, forced or
//! disabled is so all the time. A store that answers reads and refuses writes is reported within a second, and circuits recover
//! alone meanwhile. Four fleets, one for each [`Setting`], go through the same trouble at the same time, on circuits of their
//! own.

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
use crate::fleet::words::{Seen, Tally};
use crate::fleet::worker::OnLoss;
use crate::fleet::{Kind, Receiver};

/// How long anything is waited for that has no promised time. Only so that nothing hangs for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often the states are looked at while the store is away.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// How long the store is away at the least after everybody has noticed.
const NOTICED_FOR: Duration = Duration::from_secs(1);

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Workers for each `on_store_loss`.
    pub workers: u32,
    /// How many circuits of each kind.
    pub closed: usize,
    /// Opened long before.
    pub open: usize,
    /// Opened just before.
    pub late: usize,
    /// Probed again and again.
    pub recovering: usize,
    /// First asked for while the store is away.
    pub fresh: usize,
    /// How long the store may take to answer.
    pub store_timeout: Duration,
    /// How long the store is away.
    pub away: Duration,
    /// How soon a store that refuses writes must be reported.
    pub notice_within: Duration,
    /// How soon after its return all must agree.
    pub agree_within: Duration,
    /// How much longer than the store's time limit an ask may take. All processes share the machine's cores, and whoever
    /// measures may itself have to wait for one.
    pub margin: Duration,
}

impl Size {
    /// What is promised.
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

    /// Enough to see that it holds, on a machine of whatever speed: times are not judged, and a store that is there is not
    /// taken for lost because it has to wait for its turn.
    pub const SMALL: Self = Self {
        workers: 2,
        closed: 4,
        open: 2,
        late: 1,
        recovering: 1,
        fresh: 2,
        store_timeout: Duration::from_secs(3),
        away: Duration::from_secs(1),
        notice_within: PATIENCE,
        agree_within: PATIENCE,
        margin: PATIENCE,
    };
}

/// How things are before the trouble.
struct Rest {
    /// What must not change.
    shut: Vec<Seen>,
    /// On a machine that is too busy the store may have been lost already. What came of that is not held against it.
    losses: u64,
    overlaps: usize,
    trespasses: usize,
}

/// What a fleet did while the store was away.
struct Away {
    noticed_after: Duration,
    /// Before everybody had noticed, and of circuits that nobody knew.
    before: Vec<Tally>,
    fresh: Tally,
    /// From then on, by group.
    calls: Vec<Tally>,
    recovered_alone_after: Option<Duration>,
}

/// Lets one thing become of one store, for fleets with each of these settings.
///
/// # Errors
/// If the proof itself can't be made. What is against the promise is in the reports.
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

/// Waits until all agree and everything is in the state it should be in before the trouble.
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
    let (overlaps, trespasses) = (scene.overlaps(receiver), scene.trespasses(receiver));
    let (losses, setting) = (scene.losses().await?, scene.setting);
    ensure!(overlaps == 0 || losses > 0, "{overlaps} probes at once, and the store was there");
    let excused = losses > 0 && setting.on_loss == OnLoss::Admit;
    ensure!(
        trespasses == 0 || excused,
        "{}: {trespasses} calls to what is open, before the trouble, after {losses} losses",
        setting.name()
    );
    Ok(Rest { shut: scene.shut_now().await?, losses, overlaps, trespasses })
}

/// Waits until everybody has noticed, while circuits are asked for that nobody knows.
async fn notice(scene: &mut Scene, began: Instant) -> Result<Away> {
    let noticing = async {
        within("the loss is reported", async || Ok(scene.is_degraded(0).await?.then_some(()))).await?;
        Ok(began.elapsed())
    };
    let (fresh, noticed_after) = tokio::try_join!(scene.call_fresh(), noticing)?;
    // What is asked from here on is asked of somebody who knows.
    let before = scene.end_calls().await?.into();
    scene.begin_calls().await?;
    Ok(Away { noticed_after, before, fresh, calls: Vec::new(), recovered_alone_after: None })
}

/// The destinations are well again while the store refuses writes. Returns after how long all circuits are closed.
async fn recover_alone(scene: &Scene, receiver: &Receiver) -> Result<Duration> {
    let healed = Instant::now();
    scene.heal(receiver);
    within("circuits recover alone", async || Ok(scene.has_recovered().await?.then(|| healed.elapsed())))
        .await
}

/// Looks at what must not change, until then. Returns what did.
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

/// Waits until all is well again after the return, and writes down what was seen.
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
        // Looked at before it was asked, so that it is no younger than the agreement.
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
    let called = scene.trespasses(receiver);
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
    let in_all = scene.trespasses(receiver);
    // While the store was away, `admit` admits them.
    report.trespasses =
        if scene.setting.on_loss == OnLoss::Admit { in_all - called } else { in_all - rest.trespasses };
    Ok(())
}

/// Looks until something is there.
async fn within<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let limit = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() > limit {
            bail!("{what}: not within {PATIENCE:?}");
        }
        sleep(LOOK_EVERY).await;
    }
}
