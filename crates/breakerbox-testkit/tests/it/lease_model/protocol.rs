//! The possible steps in each state, and their effects.

use std::time::Duration;

use breakerbox_core::fleet::{
    Consistency, LeaseAnswer, Member, MemberAnswer, Proposal, ReportDue, StepContext, Waits,
};
use breakerbox_core::{
    Cause, OpenedBy, Outcome, OutcomeKind, Policy, RandomBits, Record, Settlement, State as Of, Timestamp,
};
use stateright::{Model, Property};

use super::state::{Asks, Given, Message, Probe, Seen, State, What, Worker};

/// The length of a time step in the model.
const TICK: Duration = Duration::from_secs(1);

/// The start time of a run of the model.
const BEGIN: Timestamp = Timestamp::from_millis(1_000_000);
const TICKS: u32 = 4;

const WAITS: Waits = Waits { swap: TICK, confirm: TICK };

/// The store's behaviour: correct, or with one specific bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Store {
    Right,
    IgnoresVersions,
    IgnoresDeadlines,
}

pub(crate) struct Protocol {
    policy: Policy,
    store: Store,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    TimePasses,
    /// A caller acquires, so that the worker must request the lease from the store.
    Ask(usize),
    /// The probe ends with an outcome.
    Settle(usize, OutcomeKind),
    /// The worker stops waiting for the store's response.
    GiveUp(usize),
    Die(usize),
    Deliver(usize),
}

impl Protocol {
    pub(crate) fn new(store: Store) -> Self {
        let policy = Policy::builder()
            .failure_rate(None)
            .consecutive_failures(1)
            .cool_off(TICK)
            .cool_off_factor(1.0)
            .jitter(0)
            .probes(1)
            .probe_timeout(TICK)
            .cancel_grace(Duration::ZERO)
            .ramp_cap(None)
            .build()
            .expect("all of these are within their bounds");
        Self { policy, store }
    }

    fn moment(&self, state: &State, now: Timestamp) -> StepContext<'_> {
        StepContext { policy: &self.policy, draw: RandomBits(state.token()), now, waits: WAITS }
    }

    /// Returns the record of an open circuit whose cool-off has ended.
    fn open(&self) -> Record {
        let record = Record::new(None, RandomBits(1), BEGIN);
        let totals = {
            let mut totals = breakerbox_core::Totals::default();
            totals.failures = 1;
            totals.failure_run = 1;
            totals
        };
        let step = record.evaluate(&totals, OpenedBy::default(), &self.policy, RandomBits(2), BEGIN);
        step.expect("one failure is enough").record
    }

    fn worker(&self, life: u8) -> Worker {
        Worker {
            life,
            member: Member::of_fleet(&self.policy, Consistency::LocalFirst, BEGIN),
            asks: Asks::Nothing,
            probe: None,
        }
    }

    fn is_due(&self, state: &State, n: usize) -> bool {
        let worker = &state.workers[n];
        if worker.asks != Asks::Nothing || worker.probe.is_some() {
            return false;
        }
        let answer = worker.member.clone().try_acquire(&self.policy, RandomBits(0), state.now);
        matches!(answer, MemberAnswer::LeaseDue | MemberAnswer::Unknown)
    }

    /// Makes the store process a message, and sends its response.
    fn serve(&self, state: &mut State, message: Message) {
        let Message { worker, life, what } = message;
        let reply = match what {
            What::Swap(proposal) => {
                let won = self.swap(state, &proposal);
                if won && let Some(lease) = proposal.step.record.lease {
                    if let Some(other) = state.lease {
                        state.seen.two_leases |= state.now < other.expires_at;
                        state.seen.taken_over |= other.worker != worker;
                    }
                    state.lease = Some(Given { worker, nonce: lease.nonce, expires_at: lease.expires_at });
                }
                What::Swapped { won, record: state.record.clone() }
            }
            What::Result(proposal, nonce) => {
                let (had, now) = (state.record.as_ref().and_then(|record| record.lease), state.now);
                if !self.swap(state, &proposal) {
                    state.seen.refused_as_late = true;
                    return;
                }
                let is_current = had.is_some_and(|lease| lease.nonce == nonce && now < lease.expires_at);
                state.seen.stale_result |= !is_current;
                state.seen.closed |= proposal.step.record.state == Of::Closed;
                state.seen.reopened |= proposal.step.record.cause == Some(Cause::ProbeFailed);
                state.lease = None;
                return;
            }
            What::Record { .. } | What::Swapped { .. } => unreachable!("the store is told no answers"),
        };
        send(state, Message { worker, life, what: reply });
    }

    /// Removes swaps that can't win anymore and whose response no worker waits for. Whether they ever arrive
    /// makes no difference, so this reduces the number of states.
    fn forget_hopeless(&self, state: &mut State) {
        if self.store != Store::Right {
            return;
        }
        let version = state.record.as_ref().map(|record| record.version);
        let hopeless = |proposal: &Proposal| proposal.expected != version || state.now > proposal.not_after;
        let awaited = |worker: usize, sent: &Proposal| matches!(&state.workers[worker].asks, Asks::SwapParameters { proposal, .. } if **proposal == *sent);
        state.messages.retain(|message| match &message.what {
            What::Swap(proposal) => awaited(message.worker, proposal) || !hopeless(proposal),
            What::Result(proposal, _) => !hopeless(proposal),
            _ => true,
        });
    }

    fn swap(&self, state: &mut State, proposal: &Proposal) -> bool {
        let is_late = state.now > proposal.not_after;
        let in_time = !is_late || self.store == Store::IgnoresDeadlines;
        let version = state.record.as_ref().map(|record| record.version);
        let wins = in_time && (version == proposal.expected || self.store == Store::IgnoresVersions);
        if wins {
            state.seen.late_swap |= is_late;
            state.record = Some(proposal.step.record.clone());
        }
        wins
    }

    /// Makes a worker process a response.
    fn answer(&self, state: &mut State, n: usize, what: What) {
        let asks = std::mem::replace(&mut state.workers[n].asks, Asks::Nothing);
        match (asks, what) {
            (Asks::Reading { since }, What::Record { record, now }) => {
                let at = self.moment(state, now);
                // After its first read, a worker acquires again.
                if !state.workers[n].member.is_known() {
                    let _ = state.workers[n].member.learn(record, at);
                    return;
                }
                let (_, decision) = state.workers[n].member.lease(record, at);
                if let LeaseAnswer::Swap(proposal) = decision {
                    let life = state.workers[n].life;
                    state.workers[n].asks =
                        Asks::SwapParameters { since, proposal: proposal.clone(), read_at: now };
                    send(state, Message { worker: n, life, what: What::Swap(proposal) });
                }
            }
            (Asks::SwapParameters { since, proposal, read_at }, What::Swapped { won, record }) => {
                self.ended(state, n, (since, proposal, read_at), won, record);
            }
            (Asks::LookingUp { since, proposal, read_at }, What::Record { record, now }) => {
                let won = record.as_ref().map(|record| record.version) == Some(proposal.step.record.version);
                if won || now > proposal.not_after {
                    self.ended(state, n, (since, proposal, read_at), won, record);
                }
            }
            // A response to an abandoned request.
            (asks, _) => state.workers[n].asks = asks,
        }
    }

    fn ended(
        &self,
        state: &mut State,
        n: usize,
        (since, proposal, read_at): (Timestamp, Box<Proposal>, Timestamp),
        won: bool,
        record: Option<Record>,
    ) {
        if !won {
            let at = self.moment(state, state.now);
            let _ = state.workers[n].member.learn(record, at);
            return;
        }
        let (_, permit) = state.workers[n].member.leased(&proposal, &self.policy, read_at);
        if let Some(permit) = permit.map(|permit| permit.by_own_clock(since)) {
            let deadline = permit.deadline().expect("a probe has one");
            state.workers[n].probe = Some(Probe { proposal, leased_at: read_at, deadline });
        }
    }

    fn settle(&self, state: &mut State, n: usize, kind: OutcomeKind) {
        let Some(probe) = state.workers[n].probe.take() else { return };
        let (_, permit) =
            state.workers[n].member.clone().leased(&probe.proposal, &self.policy, probe.leased_at);
        let Some(permit) = permit else { return };
        let outcome = Outcome::new(kind, Duration::ZERO);
        let draw = RandomBits(state.token());
        let now = state.now;
        let reported = state.workers[n].member.settle(permit, &outcome, &self.policy, draw, now);
        state.seen.refused_as_late |= reported.settled.settlement == Settlement::Late;
        if let (ReportDue::Swap(proposal), Some(lease)) = (reported.report, probe.proposal.step.record.lease)
        {
            let life = state.workers[n].life;
            send(state, Message { worker: n, life, what: What::Result(proposal, lease.nonce) });
        }
    }
}

/// Reads the record without a delay. A read that takes time would only make the probe's time run out earlier.
fn read(state: &mut State, worker: usize, life: u8) {
    let what = What::Record { record: state.record.clone(), now: state.now };
    send(state, Message { worker, life, what });
}

/// Removes the responses that the worker no longer waits for.
fn forget_answers(state: &mut State, worker: usize) {
    let is_request = |message: &Message| matches!(message.what, What::Swap(_) | What::Result(..));
    state.messages.retain(|message| message.worker != worker || is_request(message));
}

/// Sends a message. Messages are kept sorted, because the order in which they were sent does not matter.
fn send(state: &mut State, message: Message) {
    state.messages.push(message);
    state.messages.sort_by_cached_key(|message| format!("{message:?}"));
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let record = Some(self.open());
        let mut state = State {
            now: BEGIN + TICK,
            record: record.clone(),
            workers: vec![self.worker(0), self.worker(0)],
            messages: Vec::new(),
            asks: 2,
            deaths: 1,
            lease: None,
            seen: Seen::default(),
        };
        for n in 0..state.workers.len() {
            let at = self.moment(&state, state.now);
            let _ = state.workers[n].member.learn(record.clone(), at);
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.now < BEGIN + TICKS * TICK {
            steps.push(Step::TimePasses);
        }
        for (n, worker) in state.workers.iter().enumerate() {
            if state.asks > 0 && self.is_due(state, n) {
                steps.push(Step::Ask(n));
            }
            if worker.probe.is_some() {
                let kinds = [OutcomeKind::Success, OutcomeKind::Failure, OutcomeKind::Ignored];
                steps.extend(kinds.map(|kind| Step::Settle(n, kind)));
            }
            if worker.asks != Asks::Nothing {
                steps.push(Step::GiveUp(n));
            }
            // A worker that is doing nothing has nothing to lose.
            let is_busy = worker.asks != Asks::Nothing || worker.probe.is_some();
            if state.deaths > 0 && is_busy {
                steps.push(Step::Die(n));
            }
        }
        for n in 0..state.messages.len() {
            steps.push(Step::Deliver(n));
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::TimePasses => state.now = state.now + TICK,
            Step::Ask(n) => {
                state.asks -= 1;
                let life = state.workers[n].life;
                state.workers[n].asks = Asks::Reading { since: state.now };
                read(&mut state, n, life);
            }
            Step::Settle(n, kind) => self.settle(&mut state, n, kind),
            Step::GiveUp(n) => {
                forget_answers(&mut state, n);
                let asks = std::mem::replace(&mut state.workers[n].asks, Asks::Nothing);
                if let Asks::SwapParameters { since, proposal, read_at } = asks {
                    let life = state.workers[n].life;
                    state.workers[n].asks = Asks::LookingUp { since, proposal, read_at };
                    read(&mut state, n, life);
                }
            }
            Step::Die(n) => {
                state.deaths -= 1;
                forget_answers(&mut state, n);
                state.workers[n] = self.worker(state.workers[n].life + 1);
            }
            Step::Deliver(n) => {
                let message = state.messages.remove(n);
                match message.what {
                    what @ (What::Record { .. } | What::Swapped { .. }) => {
                        if state.workers[message.worker].life == message.life {
                            self.answer(&mut state, message.worker, what);
                        }
                    }
                    _ => self.serve(&mut state, message),
                }
            }
        }
        self.forget_hopeless(&mut state);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one live lease", |_, state: &State| !state.seen.two_leases),
            Property::always("no stale result", |_, state: &State| !state.seen.stale_result),
            Property::always("no late swap", |_, state: &State| !state.seen.late_swap),
            Property::always("at most one probe under way", |_, state: &State| {
                let running_tasks =
                    |worker: &&Worker| worker.probe.as_ref().is_some_and(|probe| state.now < probe.deadline);
                state.workers.iter().filter(running_tasks).count() <= 1
            }),
            Property::sometimes("a probe closes the circuit", |_, state: &State| state.seen.closed),
            Property::sometimes("a probe opens it again", |_, state: &State| state.seen.reopened),
            Property::sometimes("a lease ends, and another takes it", |_, state: &State| {
                state.seen.taken_over
            }),
            Property::sometimes("a result is late", |_, state: &State| state.seen.refused_as_late),
        ]
    }
}
