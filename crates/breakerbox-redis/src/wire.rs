//! Sends calls and receives responses, within a timeout. Each node gets one pipeline with all of its calls.
//!
//! A call is sent again only if a server reported that it did not execute the call, because it does not know
//! the script or no longer owns the key. A call whose response was lost is never sent again, because it may
//! have been executed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::StoreError;
use futures_util::future::join_all;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::time::{Instant, sleep, timeout_at};

use crate::cluster::{Address, Cluster};
use crate::error::{CallError, ConnectError};
use crate::layout::Bucket;
use crate::link::Link;
use crate::script::ScriptName;

/// The maximum number of times that one exchange follows redirections.
const MAX_REDIRECTIONS: u32 = 6;

/// The maximum number of times that a call waits for `MOVE_WAIT` while its keys are being moved between
/// nodes.
const MAX_MOVE_WAITS: u32 = 30;
const MOVE_WAIT: Duration = Duration::from_millis(10);

/// The connections to a store's servers.
pub(crate) enum Wire {
    /// A single server.
    One(Arc<Link>),
    /// A cluster, in which each server owns some of the buckets.
    Cluster(Arc<Cluster>),
}

/// A command or script call. It is sent to the server that owns its bucket.
pub(crate) struct Call {
    bucket: Bucket,
    kind: CallKind,
}

enum CallKind {
    Script { name: ScriptName, keys: Vec<String>, arguments: Vec<Vec<u8>> },
    Plain(Cmd),
}

impl Call {
    /// Creates a script call. In a cluster, all of its keys must be in the bucket.
    pub(crate) fn script(
        name: ScriptName,
        bucket: Bucket,
        keys: Vec<String>,
        arguments: Vec<Vec<u8>>,
    ) -> Self {
        Self { bucket, kind: CallKind::Script { name, keys, arguments } }
    }

    /// Creates a call that executes a plain command.
    pub(crate) fn plain(bucket: Bucket, command: Cmd) -> Self {
        Self { bucket, kind: CallKind::Plain(command) }
    }
}

/// A call that has no response yet.
struct Pending {
    call: usize,
    by_text: bool,
    /// The node to which the call was redirected, and whether the redirection applies to this call only
    /// (`ASK`); `None` without a redirection.
    sent_to: Option<(Address, bool)>,
}

/// The pending calls for one server.
struct Group {
    link: Arc<Link>,
    address: Option<Address>,
    pending: Vec<Pending>,
}

/// The links that still owe responses. If this is dropped before all responses have arrived, for example at a
/// timeout, the links are tested.
struct Waiting(Vec<Arc<Link>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.iter().for_each(|link| link.is_silent());
    }
}

impl Wire {
    /// Returns whether there is a single server, which owns every bucket.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Waits until the addresses of the servers are known. Returns an error if they can't be determined.
    pub(crate) async fn is_ready(&self) -> Result<(), ConnectError> {
        match self {
            Self::One(link) => link.connection().await.map(drop),
            Self::Cluster(cluster) => cluster.owners().await.map(drop),
        }
    }

    /// Returns one bucket of each master; with a single server, bucket 0.
    pub(crate) async fn one_bucket_for_each_master(
        &self,
        limit: Duration,
        deadline: Instant,
    ) -> Result<Vec<Bucket>, StoreError> {
        match self {
            Self::One(_) => Ok(vec![Bucket(0)]),
            Self::Cluster(cluster) => match timeout_at(deadline, cluster.owners()).await {
                Ok(owners) => Ok(owners?.one_bucket_each()),
                Err(_) => Err(StoreError::TimedOut { limit }),
            },
        }
    }

    /// Sends the calls, and returns their responses in the same order.
    pub(crate) async fn exchange(
        &self,
        calls: &[Call],
        limit: Duration,
        deadline: Instant,
    ) -> Result<Vec<Value>, StoreError> {
        let mut waiting = Waiting(Vec::new());
        let answers = timeout_at(deadline, self.rounds(calls, &mut waiting.0)).await;
        if answers.is_ok() {
            waiting.0.clear();
        }
        answers.unwrap_or(Err(StoreError::TimedOut { limit }))
    }

    async fn rounds(
        &self,
        calls: &[Call],
        waiting_for: &mut Vec<Arc<Link>>,
    ) -> Result<Vec<Value>, StoreError> {
        let mut answers: Vec<Option<Value>> = vec![None; calls.len()];
        let mut pending: Vec<_> =
            (0..calls.len()).map(|call| Pending { call, by_text: false, sent_to: None }).collect();
        let (mut redirections, mut waits) = (0, 0);
        loop {
            let groups = self.group(calls, pending).await?;
            *waiting_for = groups.iter().map(|group| Arc::clone(&group.link)).collect();
            pending = Vec::new();
            let mut last = None;
            let mut moving = false;
            for sent in join_all(groups.into_iter().map(|group| send(calls, group))).await {
                let (group, values) = sent.inspect_err(|_| self.has_changed())?;
                for (waiting, value) in group.pending.into_iter().zip(values) {
                    let Value::ServerError(error) = value else {
                        answers[waiting.call] = Some(value);
                        continue;
                    };
                    let error = RedisError::from(error);
                    let again = self.again(waiting, &error, group.address.as_ref(), &group.link);
                    pending.push(again.ok_or_else(|| refused(&group.link, error.clone()))?);
                    moving |= error.kind() == ErrorKind::Server(ServerErrorKind::TryAgain);
                    last = Some(error);
                }
            }
            let Some(source) = last else {
                return Ok(answers.into_iter().flatten().collect());
            };
            let counted = if moving { &mut waits } else { &mut redirections };
            *counted += 1;
            if redirections > MAX_REDIRECTIONS || waits > MAX_MOVE_WAITS {
                return Err(CallError::Rearranged { source }.into());
            }
            if moving {
                sleep(MOVE_WAIT).await;
            }
        }
    }

    /// Groups the pending calls by server.
    async fn group(&self, calls: &[Call], pending: Vec<Pending>) -> Result<Vec<Group>, StoreError> {
        let cluster = match self {
            Self::One(link) => {
                let link = Arc::clone(link);
                return Ok(vec![Group { link, address: None, pending }]);
            }
            Self::Cluster(cluster) => cluster,
        };
        let owners = cluster.owners().await?;
        let mut groups: BTreeMap<Address, Group> = BTreeMap::new();
        for waiting in pending {
            let address = match &waiting.sent_to {
                Some((address, _)) => address.clone(),
                None => owners.of(calls[waiting.call].bucket).inspect_err(|_| cluster.has_changed())?.clone(),
            };
            let new = |address: &Address| {
                let link = cluster.link(address);
                Group { link, address: Some(address.clone()), pending: Vec::new() }
            };
            groups.entry(address).or_insert_with_key(new).pending.push(waiting);
        }
        Ok(groups.into_values().collect())
    }

    /// Returns the call with the changes that a retry needs; `None` if the call must not be retried. Only calls
    /// that the server did not execute are retried.
    fn again(
        &self,
        waiting: Pending,
        error: &RedisError,
        said_by: Option<&Address>,
        link: &Link,
    ) -> Option<Pending> {
        let ErrorKind::Server(kind) = error.kind() else { return None };
        match (kind, said_by) {
            (ServerErrorKind::NoScript, _) => Some(Pending { by_text: true, ..waiting }),
            (ServerErrorKind::TryAgain, Some(_)) => Some(waiting),
            (ServerErrorKind::Moved | ServerErrorKind::Ask, Some(said_by)) => {
                let asking = kind == ServerErrorKind::Ask;
                if !asking {
                    self.has_changed();
                }
                let (address, _) = error.redirect_node()?;
                let address = Address::parse(address, said_by)?;
                Some(Pending { sent_to: Some((address, asking)), ..waiting })
            }
            (ServerErrorKind::ReadOnly, _) => {
                // The server is no longer the master. Reconnecting finds the current one.
                link.is_wrong();
                self.has_changed();
                None
            }
            (ServerErrorKind::ClusterDown, _) => {
                self.has_changed();
                None
            }
            _ => None,
        }
    }

    fn has_changed(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.has_changed();
        }
    }
}

fn refused(link: &Link, source: RedisError) -> StoreError {
    CallError::Refused { address: link.name().to_owned(), source }.into()
}

/// Sends a group's calls to its server, in one pipeline.
async fn send(calls: &[Call], group: Group) -> Result<(Group, Vec<Value>), StoreError> {
    let mut connection = group.link.connection().await?;
    let mut pipeline = Pipeline::with_capacity(group.pending.len());
    let mut told = Vec::new();
    for waiting in &group.pending {
        if waiting.sent_to.as_ref().is_some_and(|(_, asking)| *asking) {
            pipeline.cmd("ASKING");
        }
        match &calls[waiting.call].kind {
            CallKind::Plain(command) => _ = pipeline.add_command(command.clone()),
            CallKind::Script { name, keys, arguments } => {
                // Once a script's source was sent, the server knows it for the rest of the pipeline.
                let by_text = waiting.by_text && !told.contains(name);
                if by_text {
                    told.push(*name);
                }
                pipeline.add_command(name.command(by_text, keys, arguments));
            }
        }
    }
    let count = pipeline.len();
    match connection.send_packed_commands(&pipeline, 0, count).await {
        Ok(values) if values.len() == count => {
            let mut values = values.into_iter();
            let mut answers = Vec::with_capacity(group.pending.len());
            for waiting in &group.pending {
                if waiting.sent_to.as_ref().is_some_and(|(_, asking)| *asking) {
                    values.next();
                }
                answers.extend(values.next());
            }
            Ok((group, answers))
        }
        Ok(_) => Err(CallError::InvalidResponse.into()),
        Err(_) if group.link.has_ended() => Err(ConnectError::Ended.into()),
        Err(source) => Err(CallError::Lost { address: group.link.name().to_owned(), source }.into()),
    }
}
