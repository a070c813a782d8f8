//! Messages: the format of a notification or a digest for each kind of target.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::notification::Notification;
use super::text::Text;
use crate::values::{Moment, NotificationId};

/// A message to be sent to a target.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// The `webhook-id`: the id of the notification or the digest. It stays the same when the message is retried.
    pub id: String,
    /// The human-readable text.
    pub text: Text,
    /// The machine-readable content.
    pub json: Value,
}

impl Message {
    /// Creates the message for one notification.
    #[must_use]
    pub fn of(id: NotificationId, notification: &Notification) -> Self {
        let text = notification.text();
        let mut fields = Map::new();
        fields.insert("id".into(), id.to_string().into());
        fields.insert("at".into(), Moment(notification.at).to_string().into());
        fields.insert(
            "tenant".into(),
            notification.tenant.as_ref().map_or(Value::Null, |tenant| tenant.as_str().into()),
        );
        fields.insert("title".into(), text.title.clone().into());
        fields.insert("text".into(), text.body.clone().into());
        if let Ok(Value::Object(facts)) = serde_json::to_value(notification.news.clone().redacted()) {
            fields.extend(facts);
        }
        Self { id: id.to_string(), text, json: Value::Object(fields) }
    }

    /// Returns the request body for a webhook target.
    #[must_use]
    pub fn webhook(&self) -> Bytes {
        self.json.to_string().into()
    }

    /// Returns the request body for a Slack target.
    #[must_use]
    pub fn slack(&self) -> Bytes {
        let text = format!("*{}*\n{}", escaped(&self.text.title), escaped(&self.text.body));
        json!({ "text": text }).to_string().into()
    }
}

/// Escapes text so that Slack finds no links, mentions or entities in it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use breakerbox_core::Timestamp;

    use super::*;
    use crate::notifications::LastResult;
    use crate::values::Id;

    fn id() -> NotificationId {
        NotificationId(Id::first_at(Timestamp::from_millis(1_763_000_000_000)))
    }

    #[test]
    fn a_notification_has_stable_names() {
        let at = Timestamp::from_millis(1_763_000_000_000);
        let tenant = "acme".parse().unwrap();
        let notification = Notification::reminder_stopped(
            tenant,
            "rem_1",
            3,
            "https://a.example/x?t=secret",
            "it answered 400",
            LastResult { last_status: Some(400), last_error: None },
            at,
        );
        let message = Message::of(id(), &notification);
        let expected = json!({
            "id": id().to_string(), "kind": "reminder_stopped", "at": "2025-11-13T02:13:20.000Z", "tenant": "acme",
            "title": message.text.title, "text": message.text.body,
            "reminder": "rem_1", "run": 3, "host": "a.example", "reason": "it answered 400",
            "last_status": 400, "last_error": null,
        });
        assert_eq!(message.json, expected);
        assert_eq!(serde_json::from_slice::<Value>(&message.webhook()).unwrap(), expected);
    }

    #[test]
    fn nothing_in_a_text_means_anything_to_slack() {
        let text = Text { title: "a <!channel> & co".into(), body: "<https://evil.example|here>\nb".into() };
        let message = Message { id: "x".into(), text, json: Value::Null };
        let said: Value = serde_json::from_slice(&message.slack()).unwrap();
        assert_eq!(
            said,
            json!({ "text": "*a &lt;!channel&gt; &amp; co*\n&lt;https://evil.example|here&gt;\nb" })
        );
    }
}
