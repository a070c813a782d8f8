//! Digests: several notifications in one message, grouped by subject.
//!
//! No notification is omitted: those without a line of their own are counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use breakerbox_core::Timestamp;
use serde_json::{Value, json};

use super::kind::Kind;
use super::message::Message;
use super::text::Text;
use crate::values::{Moment, NotificationId, ShownKey, TenantId};

/// The maximum number of subjects that a digest lists. Further subjects are only counted.
const LINES: usize = 20;

/// The parts of a notification that a digest needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Headline {
    /// The notification's id. Ids sort by creation time.
    pub id: NotificationId,
    /// The notification's kind.
    pub kind: Kind,
    /// The notification's subject, such as a circuit's key.
    pub subject: Arc<str>,
    /// The tenant that the notification concerns. `None`: it concerns only the operator.
    pub tenant: Option<TenantId>,
    /// When the reported change happened.
    pub at: Timestamp,
}

/// All notifications about one subject.
struct Group<'h> {
    counts: BTreeMap<Kind, u64>,
    latest: &'h Headline,
}

impl Message {
    /// Creates a digest of these notifications. There must be at least one, and they must be sorted, oldest first.
    /// `not_kept` is the number of further notifications that were not stored.
    #[must_use]
    pub fn digest(headlines: &[Headline], not_kept: u64) -> Self {
        let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
        for headline in headlines {
            let group = groups
                .entry(&headline.subject)
                .or_insert_with(|| Group { counts: BTreeMap::new(), latest: headline });
            *group.counts.entry(headline.kind).or_default() += 1;
            if headline.id >= group.latest.id {
                group.latest = headline;
            }
        }
        // Latest first: recent events matter most.
        let mut groups: Vec<(&str, Group<'_>)> = groups.into_iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.latest.id));
        let more = groups.split_off(groups.len().min(LINES));
        let more_notifications: u64 = more.iter().map(|(_, group)| group.total()).sum();

        let mut lines: Vec<String> = groups.iter().map(|(subject, group)| group.line(subject)).collect();
        if !more.is_empty() {
            lines.push(format!("and {more_notifications} more about {} other subjects", more.len()));
        }
        if not_kept > 0 {
            lines.push(format!(
                "and {not_kept} that were not stored because too many waited; GET /v1/circuits shows the present states"
            ));
        }
        lines.push("GET /v1/notifications lists each of them.".into());

        let count = headlines.len() as u64 + not_kept;
        let subjects = groups.len() + more.len();
        let about =
            if subjects == 1 { ShownKey(groups[0].0).to_string() } else { format!("{subjects} subjects") };
        let title = format!("{count} notifications about {about}");
        let id = digest_id(headlines);
        let body = lines.join("\n");
        let json = json!({
            "id": id,
            "kind": "digest",
            "at": headlines.last().map(|last| Moment(last.at)),
            "title": title,
            "text": body,
            "count": count,
            "not_stored": not_kept,
            "groups": groups.iter().map(|(subject, group)| group.json(subject)).collect::<Vec<_>>(),
            "more_groups": more.len(),
            "more_notifications": more_notifications,
        });
        Self { id, text: Text { title, body }, json }
    }
}

/// Returns an id that is derived from the notifications' ids but differs from each of them, so that a receiver that
/// has seen one of the notifications does not drop the digest as a duplicate.
fn digest_id(headlines: &[Headline]) -> String {
    match headlines {
        [first, .., last] => format!("{}-{}-{}", first.id, last.id.0, headlines.len()),
        [only] => format!("{}-1", only.id),
        [] => String::new(),
    }
}

impl Group<'_> {
    fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    fn line(&self, subject: &str) -> String {
        let counts: Vec<String> =
            self.counts.iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
        format!(
            "{}: {}; latest: {} at {}",
            ShownKey(subject),
            counts.join(", "),
            self.latest.kind,
            Moment(self.latest.at)
        )
    }

    fn json(&self, subject: &str) -> Value {
        let counts: BTreeMap<&str, u64> =
            self.counts.iter().map(|(kind, count)| (kind.name(), *count)).collect();
        json!({
            "subject": ShownKey(subject).to_string(),
            "tenant": self.latest.tenant.as_ref().map(TenantId::as_str),
            "kinds": counts,
            "latest": {
                "id": self.latest.id.to_string(),
                "kind": self.latest.kind.name(),
                "at": Moment(self.latest.at),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Id;

    fn headline(number: u64, kind: Kind, subject: &str) -> Headline {
        let at = Timestamp::from_millis(1_763_000_000_000 + number);
        Headline { id: NotificationId(Id::first_at(at)), kind, subject: subject.into(), tenant: None, at }
    }

    #[test]
    fn a_circuit_has_a_line_with_its_counts() {
        let of = |n: u64| if n % 2 == 1 { Kind::Trip } else { Kind::Recovery };
        let headlines: Vec<_> =
            (1..=45).map(|n| headline(n, of(n), "acme https://a.example/s3cret")).collect();
        let message = Message::digest(&headlines, 0);
        let shown = ShownKey("acme https://a.example/s3cret").to_string();
        assert_eq!(message.text.title, format!("45 notifications about {shown}"));
        assert!(!message.json.to_string().contains("s3cret"), "{}", message.json);
        assert_eq!(
            message.text.body,
            format!(
                "{shown}: 23 x trip, 22 x recovery; latest: trip at 2025-11-13T02:13:20.045Z\n\
             GET /v1/notifications lists each of them."
            )
        );
        assert_eq!(message.json["groups"][0]["kinds"], json!({ "trip": 23, "recovery": 22 }));
        assert_eq!(message, Message::digest(&headlines, 0), "and the same id");
        assert_ne!(message.id, Message::digest(&headlines[1..], 0).id);
    }

    #[test]
    fn none_goes_unmentioned() {
        let headlines: Vec<_> =
            (0..1_000).map(|n| headline(n, Kind::Trip, &format!("acme s{}", n % 300))).collect();
        let message = Message::digest(&headlines, 7);
        let lines: Vec<&str> = message.text.body.lines().collect();
        assert_eq!(lines.len(), LINES + 3, "{lines:#?}");
        assert!(lines[0].starts_with("acme s99: 4 x trip; latest: trip at "), "{}", lines[0]);
        let listed: u64 = lines[..LINES]
            .iter()
            .map(|line| {
                line[line.find(": ").unwrap() + 2..].split(' ').next().unwrap().parse::<u64>().unwrap()
            })
            .sum();
        assert_eq!(lines[LINES], format!("and {} more about 280 other subjects", 1_000 - listed));
        assert!(lines[LINES + 1].starts_with("and 7 that were not stored"));
        assert_eq!(message.text.title, "1007 notifications about 300 subjects");
        let json = &message.json;
        assert_eq!(
            (&json["count"], &json["more_groups"], &json["not_stored"]),
            (&json!(1_007), &json!(280), &json!(7))
        );
    }
}
