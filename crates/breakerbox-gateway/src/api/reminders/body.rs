//! The request bodies of reminders. They are parsed once, borrowing from the request, and again only to explain an
//! error. Creating and changing use the same fields, so that they can't drift apart.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Priority, Purpose, Reminder, ReminderSettings, TenantId};
use breakerbox_model::reminder::CatchUp;
use breakerbox_storage::records::{NewReminder, ReminderChange};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use url::Url;

use super::reference::Reference;
use super::times::TimesChange;
use crate::api::problem::{ApiResult, Code, Problem};
use crate::api::reading::fields::{Change, Moment, Object, Span, Text};
use crate::api::reading::payload::{
    Carried, Circumstances, destination, none, some, wrong, wrong_batch, wrong_count,
};

const LIST: &str = "reminders";

/// The fields of a reminder. `P` is the type of the payload: borrowed JSON, or a type that skips the payload if only
/// the other fields are needed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "P: Deserialize<'de>"))]
pub(super) struct Fields<P> {
    #[serde(default)]
    tenant: Option<Text<TenantId>>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default = "none", deserialize_with = "some")]
    payload: Option<P>,
    #[serde(default)]
    payload_base64: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
    #[serde(default)]
    at: Change<Text<Moment>>,
    #[serde(default)]
    every: Change<Span>,
    #[serde(default)]
    cron: Change<String>,
    #[serde(default)]
    time_zone: Change<String>,
    #[serde(default)]
    ends_at: Change<Text<Moment>>,
    #[serde(default)]
    max_runs: Change<u32>,
    #[serde(default)]
    catch_up: Change<Text<CatchUp>>,
    #[serde(default)]
    priority: Change<Text<Priority>>,
    #[serde(default)]
    reference: Change<Text<Reference>>,
    #[serde(default)]
    expires_after: Change<Span>,
}

/// A reminder, with its payload borrowed from the request body.
pub(super) type ReminderBody<'a> = Fields<&'a RawValue>;

impl<'a> ReminderBody<'a> {
    /// Parses the body of a request.
    pub(super) fn read(body: &'a [u8]) -> ApiResult<Self> {
        let read = serde_json::from_slice::<Object<Self>>(body);
        read.map(|reminder| reminder.0).map_err(|error| wrong::<Fields<IgnoredAny>>(body, &error))
    }

    /// Returns the tenant that the body names.
    pub(super) fn tenant(&self) -> Option<TenantId> {
        self.tenant.as_ref().map(|tenant| tenant.0.clone())
    }

    pub(super) fn into_new(self, body: &Bytes, with: Circumstances<'_>) -> ApiResult<NewReminder> {
        let Some(url) = &self.url else {
            let detail = "url: is missing; send the URL to call";
            return Err(Problem::new(Code::MissingField, detail).of_field("url"));
        };
        let url = destination(url, with.tenant, Purpose::Reminders, with.addresses)?;
        let (payload, content_type) = self.carried().unpacked(body, with.payload)?;
        let (times, rest) = self.split();
        let schedule = times.fresh().schedule(with.now)?;
        let settings = ReminderSettings {
            reference: None,
            url,
            content_type,
            priority: Priority::default(),
            schedule,
            catch_up: None,
            expires_after: None,
        };
        Ok(NewReminder { tenant: with.tenant.id.clone(), settings: rest.onto(settings), payload })
    }

    /// Builds a change to a reminder.
    pub(super) fn into_patch(self, body: &Bytes, with: Circumstances<'_>) -> ApiResult<Patch> {
        if self.tenant.is_some() {
            return Err(Problem::invalid("tenant", "can't be changed; omit it"));
        }
        let destination = |url| destination(url, with.tenant, Purpose::Reminders, with.addresses);
        let url = self.url.as_deref().map(destination).transpose()?;
        let carried = self.carried();
        let content = (!carried.is_nothing()).then(|| carried.unpacked(body, with.payload)).transpose()?;
        let (times, rest) = self.split();
        Ok(Patch { url, content, times, rest, now: with.now })
    }

    fn carried(&self) -> Carried<'_> {
        Carried {
            payload: self.payload,
            payload_base64: self.payload_base64.as_deref(),
            content_type: self.content_type.as_deref(),
        }
    }

    fn split(self) -> (TimesChange, Rest) {
        let Self { at, every, cron, time_zone, ends_at, max_runs, .. } = self;
        let Self { catch_up, priority, reference, expires_after, .. } = self;
        let times = TimesChange { at, every, cron, time_zone, ends_at, max_runs };
        (times, Rest { catch_up, priority, reference, expires_after })
    }
}

/// A change that owns its data, to be merged into the stored reminder.
pub(super) struct Patch {
    url: Option<Url>,
    /// The new payload and its content type.
    content: Option<(Bytes, Arc<str>)>,
    times: TimesChange,
    rest: Rest,
    now: Timestamp,
}

impl Patch {
    /// Returns the stored reminder's data with this change applied.
    pub(super) fn onto(self, stored: &Reminder) -> ApiResult<ReminderChange> {
        let mut settings = stored.settings.clone();
        settings.url = self.url.unwrap_or(settings.url);
        let mut payload = None;
        if let Some((bytes, content_type)) = self.content {
            (payload, settings.content_type) = (Some(bytes), content_type);
        }
        settings.schedule = self.times.onto(&settings.schedule, self.now)?;
        Ok(ReminderChange { settings: self.rest.onto(settings), payload, now: self.now })
    }
}

/// The fields other than the schedule and the payload.
struct Rest {
    catch_up: Change<Text<CatchUp>>,
    priority: Change<Text<Priority>>,
    reference: Change<Text<Reference>>,
    expires_after: Change<Span>,
}

impl Rest {
    fn onto(self, mut settings: ReminderSettings) -> ReminderSettings {
        settings.catch_up = self.catch_up.map(|text| text.0).onto(settings.catch_up);
        settings.priority =
            self.priority.map(|text| text.0).onto(Some(settings.priority)).unwrap_or_default();
        settings.reference = self.reference.map(|text| text.0.0).onto(settings.reference);
        settings.expires_after = self.expires_after.map(|span| span.0).onto(settings.expires_after);
        settings
    }
}

/// The fields of a batch, without the content of its reminders.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Outline {
    #[serde(default)]
    tenant: Option<Text<TenantId>>,
    reminders: IgnoredAny,
}

/// A batch of reminders, borrowed from the request body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody<'a> {
    #[serde(default)]
    tenant: Option<Text<TenantId>>,
    #[serde(borrow)]
    reminders: Vec<Object<ReminderBody<'a>>>,
}

impl<'a> BatchBody<'a> {
    /// Parses the body of a request. `most` is the maximum number of reminders.
    pub(super) fn read(body: &'a [u8], most: usize) -> ApiResult<Self> {
        let read = serde_json::from_slice::<Object<Self>>(body);
        let batch = read.map_err(|error| {
            wrong_batch::<Outline>(body, &error, LIST, most, |reminder| ReminderBody::read(reminder).err())
        });
        let batch = batch?.0;
        let count = batch.reminders.len();
        if !(1..=most).contains(&count) {
            return Err(wrong_count(LIST, most, Some(count)));
        }
        if let Some(at) = batch.reminders.iter().position(|reminder| reminder.0.tenant.is_some()) {
            let why = "must be beside `reminders`: all reminders of a batch belong to one tenant";
            return Err(Problem::invalid("tenant", why).within(&format!("{LIST}[{at}]")));
        }
        Ok(batch)
    }

    /// Returns the tenant that the batch names.
    pub(super) fn tenant(&self) -> Option<TenantId> {
        self.tenant.as_ref().map(|tenant| tenant.0.clone())
    }

    pub(super) fn into_new(self, with: Circumstances<'_>) -> ApiResult<Vec<NewReminder>> {
        let no_body = Bytes::new();
        let reminder = |(at, reminder): (usize, Object<ReminderBody<'_>>)| {
            reminder.0.into_new(&no_body, with).map_err(|problem| problem.within(&format!("{LIST}[{at}]")))
        };
        self.reminders.into_iter().enumerate().map(reminder).collect()
    }
}
