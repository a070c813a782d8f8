//! Names of resources as arguments: an id, the end of an id as tables show it, and for some resources a URL, a
//! reference, a description or a circuit's key.
//!
//! A full id needs no look-up. Any other name is searched for among the newest resources that the key may see. A name
//! that matches none or several is an error that lists candidates; it never picks one.

use breakerbox_model::objects::{CircuitId, Id};
use serde_json::Value;
use url::Url;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::limit::Limit;
use super::output::cut;

/// The minimum length of a part of an id that is accepted as a name.
const SHORTEST: usize = 4;
/// The maximum number of resources to search.
const SEARCHED: usize = 5_000;
/// The maximum number of candidates in an error.
const CANDIDATES: usize = 8;
/// The maximum width of a candidate's description.
const DESCRIBED: usize = 70;

/// A kind of resource that has an id.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    Endpoint,
    Delivery,
    Event,
    Reminder,
    Job,
    ApiKey,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Endpoint, Self::Delivery, Self::Event, Self::Reminder, Self::Job, Self::ApiKey];

    /// Returns the prefix of the ids, the name in messages, and the listing's path in the API.
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Endpoint => ("ep_", "endpoint", "endpoints"),
            Self::Delivery => ("dlv_", "delivery", "deliveries"),
            Self::Event => ("evt_", "event", "events"),
            Self::Reminder => ("rem_", "reminder", "reminders"),
            Self::Job => ("job_", "resend job", "resends"),
            Self::ApiKey => ("key_", "API key", "keys"),
        }
    }

    /// Returns the names, other than the id, that a resource has. Empty ones are no names.
    fn other_names(self, item: &Value) -> Vec<&str> {
        let names: &[&str] = match self {
            Self::Endpoint => &["/url", "/description"],
            Self::Reminder => &["/reference"],
            Self::ApiKey => &["/name"],
            Self::Delivery | Self::Event | Self::Job => &[],
        };
        let texts = names.iter().filter_map(|pointer| item.pointer(pointer)?.as_str());
        texts.filter(|text| !text.is_empty()).collect()
    }
}

/// A resource that a name may mean: what to call it in requests, and how to describe it in an error.
#[derive(Clone, PartialEq, Debug)]
struct Candidate {
    id: String,
    described: String,
}

/// Returns the id that a name means. Searches only if the name is not a full id.
pub(super) fn resolve(gateway: &Gateway, kind: Kind, name: &str) -> Result<String, Failure> {
    if let Some(id) = full_id(kind, name)? {
        return Ok(id);
    }
    let (_, what, path) = kind.words();
    let ask = Ask::get(&[path]);
    // The API finds a reference itself, however many reminders there are.
    if kind == Kind::Reminder {
        let by_reference = ask.clone().query("reference", Some(name));
        let (found, _) = gateway.pages(&by_reference, Limit { most: CANDIDATES })?;
        if !found.is_empty() {
            return one(what, name, &candidates(&found), &[], false);
        }
    }
    let (items, more) = gateway.pages(&ask, Limit { most: SEARCHED })?;
    let found: Vec<Value> = items.iter().filter(|item| is_named(kind, item, name)).cloned().collect();
    one(what, name, &candidates(&found), &candidates(&items), more)
}

/// Returns the id that an optional filter's name means.
pub(super) fn resolve_filter(
    gateway: &Gateway,
    kind: Kind,
    name: Option<&String>,
) -> Result<Option<String>, Failure> {
    name.map(|name| resolve(gateway, kind, name)).transpose()
}

/// Returns the id of the circuit that a name means: the circuit's id, key or fingerprint, its destination, or a name of
/// its endpoint.
pub(super) fn resolve_circuit(gateway: &Gateway, name: &str) -> Result<String, Failure> {
    if name.parse::<CircuitId>().is_ok() {
        return Ok(name.to_owned());
    }
    // A key contains its tenant, a space, and a host or a URL. A description may also contain a space.
    if name.split_once(' ').is_some_and(|(_, destination)| destination.contains(['.', ':'])) {
        return Ok(CircuitId::of(name).to_string());
    }
    if let Ok(Some(id)) = full_id(Kind::Endpoint, name) {
        let endpoint = gateway.request(Ask::get(&["endpoints", &id]))?;
        let circuit = endpoint.pointer("/circuit/id").and_then(Value::as_str);
        return circuit
            .map(String::from)
            .ok_or_else(|| Failure::Environment(format!("the endpoint {id} has no circuit")));
    }
    let (circuits, more) = gateway.pages(&Ask::get(&["circuits"]), Limit { most: SEARCHED })?;
    let (endpoints, more_endpoints) = gateway.pages(&Ask::get(&["endpoints"]), Limit { most: SEARCHED })?;
    let of_endpoint = |endpoint: &Value| {
        let circuit = endpoint.get("circuit").filter(|circuit| circuit.is_object())?;
        candidate(circuit, "/key")
    };
    let named = circuits.iter().filter(|circuit| is_circuit(circuit, name));
    let mut found: Vec<Candidate> = named.filter_map(|circuit| candidate(circuit, "/key")).collect();
    let named = endpoints.iter().filter(|endpoint| is_named(Kind::Endpoint, endpoint, name));
    found.extend(named.filter_map(of_endpoint));
    let mut all: Vec<Candidate> = circuits.iter().filter_map(|circuit| candidate(circuit, "/key")).collect();
    all.extend(endpoints.iter().filter_map(of_endpoint));
    one("circuit", name, &distinct(found), &distinct(all), more || more_endpoints)
}

/// Returns the full id, if the name is one. An id of another kind is an error.
fn full_id(kind: Kind, name: &str) -> Result<Option<String>, Failure> {
    let (prefix, what, _) = kind.words();
    let digits = name.strip_prefix(prefix).unwrap_or(name);
    if digits.parse::<Id>().is_ok() {
        return Ok(Some(format!("{prefix}{digits}")));
    }
    let other = Kind::ALL
        .into_iter()
        .map(Kind::words)
        .find(|(other, ..)| *other != prefix && name.starts_with(other));
    match other {
        Some((_, other, _)) => Err(Failure::Input(format!(
            "{name} is the ID of another kind of resource ({other}); IDs of this kind ({what}) begin with {prefix}"
        ))),
        None => Ok(None),
    }
}

/// Returns whether a name means this resource.
fn is_named(kind: Kind, item: &Value, name: &str) -> bool {
    let (prefix, ..) = kind.words();
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    let (digits, part) = (id.strip_prefix(prefix).unwrap_or(id), name.strip_prefix(prefix).unwrap_or(name));
    let is_part = part.len() >= SHORTEST && (digits.starts_with(part) || digits.ends_with(part));
    is_part || kind.other_names(item).into_iter().any(|other| is_same(other, name))
}

fn is_circuit(circuit: &Value, name: &str) -> bool {
    let text = |field: &str| circuit.get(field).and_then(Value::as_str).unwrap_or_default();
    let destination = text("key").split_once(' ').map_or("", |(_, destination)| destination);
    let fingerprint = name.strip_prefix('#').unwrap_or(name);
    let is_fingerprint = fingerprint.len() >= SHORTEST && text("fingerprint").starts_with(fingerprint);
    text("key") == name || is_fingerprint || (!destination.is_empty() && is_same(destination, name))
}

/// Returns whether two names are equal as texts or as URLs: `https://a.example` and `https://a.example/` are.
fn is_same(text: &str, name: &str) -> bool {
    let url = |text: &str| text.contains("://").then(|| Url::parse(text).ok()).flatten();
    text == name || matches!((url(text), url(name)), (Some(a), Some(b)) if a == b)
}

/// Describes a resource: its id, and the field that tells people most.
fn candidate(item: &Value, best: &str) -> Option<Candidate> {
    let id = item.get("id")?.as_str()?.to_owned();
    let fields = [best, "/reference", "/url", "/name", "/type", "/state"];
    let said =
        fields.iter().find_map(|pointer| item.pointer(pointer)?.as_str().filter(|text| !text.is_empty()));
    let tenant = item.get("tenant").and_then(Value::as_str).map(|tenant| format!(" ({tenant})"));
    let said = cut(said.unwrap_or_default(), DESCRIBED);
    // A circuit's id is its key in another form.
    let described = if best == "/key" { said } else { format!("{id}  {said}{}", tenant.unwrap_or_default()) };
    Some(Candidate { id, described })
}

fn candidates(items: &[Value]) -> Vec<Candidate> {
    items.iter().filter_map(|item| candidate(item, "/reference")).collect()
}

fn distinct(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut kept: Vec<Candidate> = vec![];
    for candidate in candidates {
        if !kept.iter().any(|other| other.id == candidate.id) {
            kept.push(candidate);
        }
    }
    kept
}

/// Returns the one resource that was found, or an error with the candidates. `more` states whether some resources were
/// not searched.
fn one(
    what: &str,
    name: &str,
    found: &[Candidate],
    all: &[Candidate],
    more: bool,
) -> Result<String, Failure> {
    let list = |candidates: &[Candidate]| -> Vec<String> {
        candidates.iter().take(CANDIDATES).map(|candidate| candidate.described.clone()).collect()
    };
    match found {
        [only] => Ok(only.id.clone()),
        [] => {
            let searched = if more { format!(" among the newest {SEARCHED}") } else { String::new() };
            let detail = format!("there is no {what} {name:?}{searched}");
            let next = if all.is_empty() { None } else { Some("the newest are:") };
            Err(Failure::Name { code: "not_found", detail, next, candidates: list(all) })
        }
        several => {
            let detail = format!("{name:?} means {} of them; write more of the {what}'s ID", several.len());
            Err(Failure::Name {
                code: "ambiguous",
                detail,
                next: Some("it can be:"),
                candidates: list(several),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn full_ids_are_taken_as_they_are() {
        let id = |kind, name: &str| full_id(kind, name).ok().flatten();
        assert_eq!(id(Kind::Delivery, "dlv_01h5k2m8w4c7e").as_deref(), Some("dlv_01h5k2m8w4c7e"));
        assert_eq!(id(Kind::Delivery, "01h5k2m8w4c7e").as_deref(), Some("dlv_01h5k2m8w4c7e"));
        assert_eq!(id(Kind::Delivery, "2m8w4c7e"), None);
        assert!(matches!(full_id(Kind::Delivery, "ep_01h5k2m8w4c7e"), Err(Failure::Input(_))));
    }

    #[test]
    fn resources_have_several_names() {
        let endpoint =
            json!({"id": "ep_01h5k2m8w4c7e", "url": "https://a.example/", "description": "Billing"});
        for (name, expected) in [
            ("2m8w4c7e", true),
            ("ep_2m8w4c7e", true),
            ("4c7e", true),
            ("01h5", true),
            ("c7e", false),
            ("https://a.example", true),
            ("https://a.example/", true),
            ("https://A.example", true),
            ("https://a.example/x", false),
            ("Billing", true),
            ("", false),
        ] {
            assert_eq!(is_named(Kind::Endpoint, &endpoint, name), expected, "{name}");
        }
        let circuit =
            json!({"id": "cir_YQ", "key": "acme https://a.example/in", "fingerprint": "3f2a9c1b8d02"});
        for (name, expected) in [
            ("3f2a9c1b", true),
            ("#3f2a9c1b8d02", true),
            ("3f2", false),
            ("https://a.example/in", true),
            ("acme https://a.example/in", true),
            ("acme", false),
        ] {
            assert_eq!(is_circuit(&circuit, name), expected, "{name}");
        }
    }

    #[test]
    fn a_name_that_means_none_or_several_is_an_error() {
        let candidate = |id: &str| Candidate { id: id.into(), described: format!("{id}  described") };
        let (a, b) = (candidate("ep_a"), candidate("ep_b"));
        assert_eq!(one("endpoint", "a", std::slice::from_ref(&a), &[], false).ok().as_deref(), Some("ep_a"));
        let Err(Failure::Name { code, detail, candidates, .. }) =
            one("endpoint", "x", &[a.clone(), b.clone()], &[], false)
        else {
            panic!("two")
        };
        assert_eq!((code, candidates.len()), ("ambiguous", 2), "{detail}");
        let Err(Failure::Name { code, detail, candidates, .. }) = one("endpoint", "x", &[], &[a, b], true)
        else {
            panic!("none")
        };
        assert_eq!((code, candidates.len()), ("not_found", 2));
        assert!(detail.contains("among the newest 5000"), "{detail}");
    }
}
