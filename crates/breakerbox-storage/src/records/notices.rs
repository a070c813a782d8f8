//! What people were told, what waits to be told, and what became of it.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::notifications::{Headline, Kind, Notice};
use breakerbox_model::objects::{NoticeId, TenantId};

use super::{Page, PageOf, RecordsError};
use crate::QueueError;

/// Which notices. All that is said must hold.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NoticeFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// With a target of the tenant's at which it is in this state; without a tenant, any target.
    pub state: Option<SendState>,
}

/// A notice as it is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct PastNotice {
    /// Its name.
    pub id: NoticeId,
    /// What was told.
    pub notice: Notice,
    /// To whom, and with what result.
    pub sends: Vec<PastSend>,
}

/// What became of a notice at one target.
#[derive(Clone, PartialEq, Debug)]
pub struct PastSend {
    /// Which target, by its name.
    pub target: Arc<str>,
    /// What became of it.
    pub state: SendState,
    /// How often it was tried.
    pub tries: u32,
    /// While it waits: when it is tried.
    pub due_at: Option<Timestamp>,
    /// When it was last tried.
    pub tried_at: Option<Timestamp>,
    /// What came of that.
    pub answer: Option<String>,
    /// In which message it was last.
    pub message: Option<String>,
}

/// What became of a notice at one target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendState {
    /// It waits to be sent, or to be tried again.
    Waiting,
    /// The target took it.
    Sent,
    /// It was tried often enough.
    GivenUp,
    /// The target is not there any more.
    Dropped,
}

impl SendState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Sent, Self::GivenUp, Self::Dropped];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sent => "sent",
            Self::GivenUp => "given_up",
            Self::Dropped => "dropped",
        }
    }
}

/// A target for which something waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingTarget {
    /// Its name.
    pub name: Arc<str>,
    /// Whose; none: the operator's.
    pub tenant: Option<TenantId>,
    /// How many notices are due, counted up to a bound.
    pub due: u64,
    /// How many wait in all.
    pub waiting: u64,
    /// How many were too many to be kept, and were not said yet.
    pub not_kept: u64,
}

/// A notice that is due at a target.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitingNotice {
    /// What a digest needs of it.
    pub headline: Headline,
    /// How often it was tried.
    pub tries: u32,
}

/// What became of a message.
#[derive(Clone, PartialEq, Debug)]
pub struct SendResult {
    /// Where it went.
    pub target: Arc<str>,
    /// Its id.
    pub message: String,
    /// What came of it, in a few words.
    pub answer: String,
    /// What follows for each of its notices: its state, and when it is due if it waits.
    pub notices: Vec<(NoticeId, SendState, Timestamp)>,
    /// How many that were not kept it has said.
    pub said_not_kept: u64,
    /// Whether it was a try, and not merely dropped.
    pub tried: bool,
}

/// Deliveries that failed in a stretch of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The end of the stretch: what failed from then on is not in it.
    pub until: Timestamp,
    /// How many of each tenant in each minute.
    pub of: Vec<(TenantId, Timestamp, u64)>,
}

/// What people were told.
#[async_trait]
pub trait Notices: Send + Sync + 'static {
    /// Tells of something: it is kept, and waits for each of its targets. Answers whether it is new: of each kind, subject and
    /// epoch there is one.
    ///
    /// # Errors
    /// If the database fails; nothing was kept.
    async fn tell(&self, notice: Notice) -> Result<bool, QueueError>;

    /// Notices, the newest first.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn notices(&self, filter: &NoticeFilter, page: &PageOf) -> Result<Page<PastNotice>, RecordsError>;

    /// A notice.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn notice(&self, id: NoticeId) -> Result<PastNotice, RecordsError>;

    /// Targets for which something waits. Costs as much as there are such targets.
    ///
    /// # Errors
    /// If the database fails.
    async fn waiting_targets(&self) -> Result<Vec<WaitingTarget>, QueueError>;

    /// What is due at a target, the oldest first.
    ///
    /// # Errors
    /// If the database fails.
    async fn due_notices(&self, target: &str, limit: usize) -> Result<Vec<WaitingNotice>, QueueError>;

    /// Writes down what became of a message.
    ///
    /// # Errors
    /// If the database fails; nothing was written.
    async fn settle_message(&self, result: SendResult) -> Result<(), QueueError>;

    /// Forgets notices from before then that wait for nobody, a bounded number. Answers how many.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_notices(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;

    /// Deliveries that failed for good from then until now, which is in the answer. Each is in one answer, if the next
    /// question begins where this one ends.
    ///
    /// # Errors
    /// If the database fails.
    async fn failed_since(&self, from: Timestamp) -> Result<Failed, QueueError>;
}
