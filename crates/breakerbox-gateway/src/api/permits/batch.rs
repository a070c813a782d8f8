//! Batches of acquires and settlements. Each item is parsed, processed and answered separately, so that an invalid item
//! does not affect the others.

use std::future::poll_fn;
use std::task::Poll;

use axum::extract::Request;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use serde::de::{self, DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tokio::task::yield_now;
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::problem::{ApiResult, Problem, Written};
use crate::api::reading::fields::Object;
use crate::api::reading::{explained, is_json, read_body};

/// The number of items to start before yielding to other tasks. Starting 1,000 items without a yield would block the
/// thread for 30 ms.
const AT_A_STRETCH: usize = 16;

/// The maximum number of items to keep in memory. No batch may have more, so further items are skipped without being
/// counted.
const COUNTED: usize = 100_000;

/// The results for a batch.
#[derive(Serialize, ToSchema)]
#[schema(as = BatchResults)]
pub(super) struct Answers<T: ToSchema> {
    /// One result for each item, in the order of the batch.
    items: Vec<T>,
}

/// A batch item that failed.
#[derive(Serialize, ToSchema)]
#[schema(as = FailedItem)]
pub(super) struct NotDone {
    /// The problem with this item.
    #[schema(value_type = Written<'static>)]
    problem: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(borrow)]
    items: Items<'a>,
}

/// The items of a batch without their content, parsed only to explain an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outline {
    #[allow(dead_code)]
    items: Vec<de::IgnoredAny>,
}

/// Parses a batch, and calls `done` for each item. An item that is invalid or fails gets the result of `not_done`
/// instead.
pub(super) async fn each<B, T, F>(
    api: &Api,
    request: Request,
    done: impl Fn(B) -> F,
    not_done: impl Fn(NotDone) -> T,
) -> ApiResult<Answers<T>>
where
    B: DeserializeOwned,
    T: ToSchema,
    F: Future<Output = ApiResult<T>>,
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
        let read = serde_json::from_str::<Object<B>>(item.get());
        let read = read.map_err(|error| explained::<Object<B>>(item.get().as_bytes(), &error));
        let answer = match read {
            Ok(body) => done(body.0).await,
            Err(problem) => Err(problem),
        };
        answer.unwrap_or_else(|problem| {
            not_done(NotDone { problem: problem.within(&format!("items[{at}]")).into_part() })
        })
    };
    let mut answers = Vec::with_capacity(items.0.len());
    let mut under_way = FuturesOrdered::new();
    for (place, item) in items.0.iter().enumerate() {
        under_way.push_back(one((place, item)));
        if place % AT_A_STRETCH == AT_A_STRETCH - 1 {
            poll_fn(|context| {
                while let Poll::Ready(Some(answer)) = under_way.poll_next_unpin(context) {
                    answers.push(answer);
                }
                Poll::Ready(())
            })
            .await;
            yield_now().await;
        }
    }
    while let Some(answer) = under_way.next().await {
        answers.push(answer);
    }
    Ok(Answers { items: answers })
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
                        // The batch is too large already.
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
