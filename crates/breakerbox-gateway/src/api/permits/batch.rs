//! Batches of asks and of reports: each part is read, done and answered by itself, so that one that is wrong does not stop the
//! others.

use axum::extract::Request;
use futures_util::future::join_all;
use serde::de::{self, DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tokio::task::coop::consume_budget;
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::problem::{Answer, Problem, Written};
use crate::api::reading::fields::Object;
use crate::api::reading::{explained, is_json, read_body};

/// More items than this are not even counted. No batch may have more.
const COUNTED: usize = 100_000;

/// What was answered, in the order of the batch.
#[derive(Serialize, ToSchema)]
#[schema(as = Answers)]
pub(super) struct Answers<T: ToSchema> {
    /// One for each item, at its place.
    items: Vec<T>,
}

/// An item that was not done.
#[derive(Serialize, ToSchema)]
pub(super) struct NotDone {
    /// Why.
    #[schema(value_type = Written<'static>)]
    problem: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(borrow)]
    items: Items<'a>,
}

/// The same, to say what is wrong.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outline {
    #[allow(dead_code)]
    items: Vec<de::IgnoredAny>,
}

/// Reads a batch, and does and answers each of its items.
pub(super) async fn each<B, T, F>(
    api: &Api,
    request: Request,
    done: impl Fn(B) -> F,
    not_done: impl Fn(NotDone) -> T,
) -> Answer<Answers<T>>
where
    B: DeserializeOwned,
    T: ToSchema,
    F: Future<Output = Answer<T>>,
{
    is_json(request.headers())?;
    let limits = &api.services.limits;
    let (body, _room) = read_body(request, &api.budget, limits.batch_bytes).await?;
    let read = serde_json::from_slice::<Object<Batch<'_>>>(&body);
    let items = read.map_err(|error| explained::<Object<Outline>>(&body, &error))?.0.items;
    if !(1..=limits.batch_events).contains(&items.0.len()) {
        let most = limits.batch_events;
        return Err(Problem::invalid(
            "items",
            format_args!("must be 1 to {most}, but are {}", items.0.len()),
        ));
    }
    let one = async |(at, item): (usize, &&RawValue)| {
        // A thousand items at a stretch would keep the thread from everybody else for 30 ms; a new circuit is as much work as two
        // of the steps for which the runtime lets a task go on.
        consume_budget().await;
        consume_budget().await;
        let read = serde_json::from_str::<Object<B>>(item.get());
        let read = read.map_err(|error| explained::<Object<B>>(item.get().as_bytes(), &error));
        let answer = match read {
            Ok(body) => done(body.0).await,
            Err(problem) => Err(problem),
        };
        answer.unwrap_or_else(|problem| {
            not_done(NotDone { problem: problem.within(&format!("items[{at}]")).into_value() })
        })
    };
    Ok(Answers { items: join_all(items.0.iter().enumerate().map(one)).await })
}

struct Items<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counted;

        impl<'de> Visitor<'de> for Counted {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = parts.next_element()? {
                    if items.len() > COUNTED {
                        // They are too many anyway.
                        parts.next_element::<de::IgnoredAny>()?;
                        continue;
                    }
                    items.push(item);
                }
                Ok(items)
            }
        }

        deserializer.deserialize_seq(Counted).map(Self)
    }
}
