//! A whole gateway: a receiver fails and recovers, and its owner and the operator are notified, once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use breakerbox_gateway::config::{Config, Sources};
use breakerbox_gateway::gateway::Gateway;
use breakerbox_model::objects::Secret;
use breakerbox_testkit::gateway::Api;
use breakerbox_testkit::mail::{MailServer, Security};
use breakerbox_testkit::receiver::{Behaviour, Receiver};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A generous timeout, so that a hanging test fails.
const LONG: Duration = Duration::from_secs(60);

/// The received bodies, by path.
type ReceivedMessages = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

/// A gateway in this process, and a receiver for everything.
pub(super) struct Site {
    pub(super) runtime: Runtime,
    pub(super) gateway: Option<Gateway>,
    pub(super) config: Config,
    key: String,
    pub(super) receiver: Receiver,
    kept: ReceivedMessages,
    /// The paths and event types of the requests, in their order.
    types: Arc<Mutex<Vec<(String, String)>>>,
    _folder: tempfile::TempDir,
}

impl Site {
    /// Starts a gateway that notifies the operator at `/operator`, unless `change` sets other targets.
    pub(super) fn start(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kept = ReceivedMessages::default();
        let keeps = Arc::clone(&kept);
        let types = Arc::<Mutex<Vec<(String, String)>>>::default();
        let listed = Arc::clone(&types);
        let receiver = Receiver::builder().check(move |received| {
            let body = serde_json::from_slice(received.body).unwrap_or(Value::Null);
            if let Some(kind) = received.header("webhook-event-type") {
                listed.lock().unwrap().push((received.path.to_owned(), kind.to_owned()));
            }
            keeps.lock().unwrap().entry(received.path.to_owned()).or_default().push(body);
            true
        });
        let receiver = receiver.start().unwrap();
        let mut config = config(folder.path(), &receiver.url("/operator"));
        change(&mut config);
        let runtime = Runtime::new().unwrap();
        let gateway = runtime.block_on(Gateway::start(&config)).unwrap();
        let key = gateway.first_start().unwrap().admin_key.reveal();
        Self { runtime, gateway: Some(gateway), config, key, receiver, kept, types, _folder: folder }
    }

    pub(super) fn api(&self) -> Api {
        Api::new(self.gateway.as_ref().unwrap().address(), &self.key)
    }

    pub(super) fn stop(&mut self) {
        let gateway = self.gateway.take().unwrap();
        self.runtime.block_on(gateway.stop());
    }

    pub(super) fn start_again(&mut self) {
        self.gateway = Some(self.runtime.block_on(Gateway::start(&self.config)).unwrap());
    }

    /// Returns the kinds of notifications received at a path, including those in digests.
    pub(super) fn told(&self, path: &str) -> Vec<String> {
        let kept = self.kept.lock().unwrap();
        let mut kinds = Vec::new();
        for body in kept.get(path).into_iter().flatten() {
            match body["groups"].as_array() {
                None => kinds.push(body["kind"].as_str().unwrap_or("?").to_owned()),
                Some(groups) => kinds.extend(groups.iter().flat_map(|group| {
                    let counts = group["kinds"].as_object().unwrap().clone();
                    let all = counts.into_iter();
                    all.flat_map(|(kind, count)| {
                        vec![kind; usize::try_from(count.as_u64().unwrap()).unwrap()]
                    })
                })),
            }
        }
        kinds
    }

    /// Returns the messages received at a path.
    pub(super) fn messages(&self, path: &str) -> Vec<Value> {
        self.kept.lock().unwrap().get(path).cloned().unwrap_or_default()
    }

    /// Returns the event types of the requests received at a path.
    pub(super) fn types(&self, path: &str) -> Vec<String> {
        let types = self.types.lock().unwrap();
        types.iter().filter(|(at, _)| at == path).map(|(_, kind)| kind.clone()).collect()
    }

    #[track_caller]
    pub(super) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let give_up_at = Instant::now() + LONG;
        while !is_so() {
            assert!(Instant::now() < give_up_at, "{what}: {:?}", self.kept.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(gateway) = self.gateway.take() {
            self.runtime.block_on(gateway.stop());
        }
    }
}

/// A configuration that trips after two failures, and probes soon after.
fn config(folder: &Path, operators: &str) -> Config {
    let said = Sources::default()
        .variables([
            ("BREAKERBOX_POLICY_CONSECUTIVE_FAILURES", "2"),
            ("BREAKERBOX_POLICY_COOL_OFF", "200ms"),
            ("BREAKERBOX_POLICY_COOL_OFF_MAX", "200ms"),
            ("BREAKERBOX_POLICY_PROBES", "1"),
            ("BREAKERBOX_DELIVERY_RETRY", "1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s"),
            ("BREAKERBOX_NOTIFY_AFTER", "0s"),
            ("BREAKERBOX_NOTIFY_WEBHOOK_URL", operators),
            ("BREAKERBOX_NOTIFY_WEBHOOK_SECRET", &Secret::random().reveal()),
            ("BREAKERBOX_ALLOW", "127.0.0.0/8"),
            ("BREAKERBOX_LISTEN", "127.0.0.1:0"),
            ("BREAKERBOX_LIMITS_DISK_RESERVE", "0B"),
        ])
        .load()
        .unwrap();
    Config { data: folder.join("data"), grace: Duration::from_secs(1), ..said.config }
}

/// Creates an endpoint of the tenant that responds with this status, and submits events for it.
pub(super) fn break_endpoint(site: &Site, path: &str, status: u16) -> String {
    site.receiver.set(path, Behaviour::status(status));
    break_endpoint_at(site, &site.receiver.url(path))
}

/// Creates an endpoint of the tenant with this URL, and submits events for it.
pub(super) fn break_endpoint_at(site: &Site, url: &str) -> String {
    let endpoint = site.api().create_endpoint("default", url, &[], &json!({})).unwrap();
    for _ in 0..4 {
        site.api().post("/v1/events", &json!({ "type": "a.b", "payload": {} })).unwrap();
    }
    endpoint
}

#[test]
fn owner_and_operator_hear_of_an_outage_and_of_its_end_once() {
    let mut site = Site::start(|_| {});
    let target = json!([{ "kind": "webhook", "url": site.receiver.url("/tenant") }]);
    let changed =
        site.api().patch("/v1/tenants/default", &json!({ "notification_targets": target })).unwrap();
    assert!(changed["notification_targets"][0]["secret"].as_str().unwrap().starts_with("whsec_"));
    let endpoint = break_endpoint(&site, "/dying", 500);
    site.until("a trip", || site.told("/operator") == ["trip"] && site.told("/tenant") == ["trip"]);
    // The path of a URL may be a secret, so notifications name the endpoint instead.
    let told = site.kept.lock().unwrap()["/tenant"][0].to_string();
    assert!(!told.contains("dying") && told.contains(&endpoint), "{told}");
    // Failing probes cause no notification, even across a restart.
    let requests = site.receiver.seen("/dying").requests;
    site.until("probes", || site.receiver.seen("/dying").requests > requests + 2);
    site.stop();
    site.start_again();
    site.receiver.set("/dying", Behaviour::HEALTHY);
    site.until("a recovery", || {
        ["/operator", "/tenant"].iter().all(|path| site.told(path) == ["trip", "recovery"])
    });
    let trip = site.kept.lock().unwrap()["/tenant"][0].clone();
    assert_eq!(trip["tenant"], "default");
    assert_eq!(trip["circuit"]["endpoints"], json!([endpoint]));
    assert_eq!(trip["cause"]["counts"]["consecutive_failures"], 2);
    let recovery = site.kept.lock().unwrap()["/tenant"][1].clone();
    assert!(recovery["since"].is_string(), "{recovery}");

    // The receiver gets a message shortly before it is recorded as sent.
    site.until("all are noted as sent", || {
        let shown = site.api().get("/v1/notifications").unwrap();
        let items = shown["items"].as_array().unwrap();
        let mut sends = items.iter().flat_map(|item| item["results"].as_array().unwrap());
        items.len() == 2 && sends.all(|send| send["state"] == "sent" && send["response"] == "200")
    });
    let new = json!({ "name": "owner", "scopes": ["read"], "tenant": "default" });
    let key = site.api().post("/v1/keys", &new).unwrap();
    let own = site.api().with_key(key["key"].as_str().unwrap()).get("/v1/notifications").unwrap();
    for item in own["items"].as_array().unwrap() {
        let sends = item["results"].as_array().unwrap();
        assert_eq!(sends.len(), 1, "the operator's targets are the operator's: {item}");
        assert!(sends[0]["target"].as_str().unwrap().starts_with("tgt_"), "{item}");
    }
    assert_eq!(site.api().get("/readyz").unwrap()["degraded"], json!([]));
}

#[test]
fn a_target_that_is_the_broken_endpoint_itself_does_no_harm() {
    let site = Site::start(|_| {});
    let target = json!([{ "kind": "webhook", "url": site.receiver.url("/dying") }]);
    site.api().patch("/v1/tenants/default", &json!({ "notification_targets": target })).unwrap();
    break_endpoint(&site, "/dying", 500);
    site.until("the operator hears of it", || site.told("/operator") == ["trip"]);
    site.until("the tenant is tried", || {
        let shown = site.api().get("/v1/notifications").unwrap();
        let sends = shown["items"][0]["results"].as_array().unwrap().clone();
        sends.iter().any(|send| send["target"] != "operator/webhook" && send["response"] == "500")
    });
    site.receiver.set("/dying", Behaviour::HEALTHY);
    site.until("the circuit closes", || site.told("/operator").contains(&"recovery".to_owned()));
    site.until("and the tenant hears of both", || {
        let told = site.told("/dying");
        ["trip", "recovery"].iter().all(|kind| told.contains(&(*kind).to_owned()))
    });
}

#[test]
fn an_endpoint_that_is_gone_is_told_and_so_is_a_mail() {
    let mails = MailServer::start(Security::Plain).unwrap();
    let url = format!("smtp+plain://127.0.0.1:{}", mails.address().port());
    let site = Site::start(|config| {
        config.notify.smtp_url = Some(url.parse().unwrap());
        config.notify.smtp_from = Some("box@example.com".parse().unwrap());
        config.notify.email = vec!["ops@example.com".parse().unwrap()];
    });
    let target = json!([{ "kind": "email", "to": "owner@example.com" }]);
    site.api().patch("/v1/tenants/default", &json!({ "notification_targets": target })).unwrap();
    let endpoint = break_endpoint(&site, "/gone", 410);
    site.until("a notification", || site.told("/operator") == ["disabled"]);
    site.until("mails to both", || mails.mails().len() == 2);
    let mut to: Vec<String> = mails.mails().into_iter().flat_map(|mail| mail.to).collect();
    to.sort();
    assert_eq!(to, ["ops@example.com", "owner@example.com"]);
    assert!(mails.mails()[0].text.contains(&endpoint));
    let tested = site.api().post("/v1/tenants/default/notifications/test", &json!({})).unwrap();
    assert_eq!(tested["targets"][0]["ok"], true, "{tested}");
}

#[test]
fn a_loop_of_test_notifications_mails_nobody_again_and_again() {
    let mails = MailServer::start(Security::Plain).unwrap();
    let url = format!("smtp+plain://127.0.0.1:{}", mails.address().port());
    let site = Site::start(|config| {
        config.notify.smtp_url = Some(url.parse().unwrap());
        config.notify.smtp_from = Some("box@example.com".parse().unwrap());
        (config.notify.burst, config.notify.interval) = (3, Duration::from_secs(3_600));
    });
    let test = || {
        let path = "/v1/tenants/default/notifications/test";
        site.api().request(&http::Method::POST, path, Some(&json!({}))).unwrap()
    };
    let mut sent = 0;
    for victim in 0..12 {
        let target = json!([{ "kind": "email", "to": format!("victim{victim}@example.com") }]);
        site.api().patch("/v1/tenants/default", &json!({ "notification_targets": target })).unwrap();
        let answers: Vec<_> = (0..10).map(|_| test()).collect();
        let taken = answers.iter().take_while(|(status, _)| *status == 200).count();
        assert!(taken <= 3, "{answers:?}");
        for (status, problem) in &answers[taken..] {
            assert_eq!((*status, &problem["code"]), (429, &json!("tests_too_fast")), "{problem}");
        }
        sent += taken;
    }
    assert_eq!((sent, mails.mails().len()), (20, 20), "a tenant has so many for all its targets");
}

#[test]
fn dead_letters_that_grow_are_told() {
    let site = Site::start(|config| config.notify.dead_letters = Some(3));
    break_endpoint(&site, "/picky", 422);
    site.until("a notification", || site.told("/operator") == ["dead_letters"]);
    let told = site.kept.lock().unwrap()["/operator"][0].clone();
    assert_eq!((&told["tenant"], &told["limit"]), (&json!("default"), &json!(3)));
    assert!(told["count"].as_u64().unwrap() >= 3);
}

#[test]
fn a_target_on_loopback_is_refused_unless_it_is_allowed() {
    let site = Site::start(|config| config.egress.allow = vec![]);
    // By host name: a URL with the literal address is refused immediately.
    let named = |path: &str| site.receiver.url(path).replace("127.0.0.1", "localhost");
    let target = |url: String| json!({ "notification_targets": [{ "kind": "slack", "url": url }] });
    site.api().patch("/v1/tenants/default", &target(site.receiver.url("/tenant"))).unwrap_err();
    site.api().patch("/v1/tenants/default", &target(named("/tenant"))).unwrap();
    let tested = site.api().post("/v1/tenants/default/notifications/test", &json!({})).unwrap();
    assert_eq!(tested["targets"][0]["ok"], false);
    let answer = tested["targets"][0]["response"].as_str().unwrap();
    assert!(answer.starts_with("address_denied"), "{answer}");
    // Its endpoints fail as well, and so does the operator's own target.
    break_endpoint_at(&site, &named("/dying"));
    site.until("health says so", || {
        let health = site.api().get("/readyz").unwrap();
        health["degraded"].to_string().contains("notifications: operator/webhook")
    });
    assert!(site.kept.lock().unwrap().is_empty());
}
