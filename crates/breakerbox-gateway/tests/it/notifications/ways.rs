//! Each kind of target, with real servers: signed webhooks, Slack's JSON, mails with and without TLS.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use breakerbox_core::Timestamp;
use breakerbox_egress::{AddressPolicy, SendSettings, Sender};
use breakerbox_gateway::notifications::{Delivered, MailServer as Server, Mailer, MessageSender};
use breakerbox_model::delivery::Signer;
use breakerbox_model::notifications::{LastResult, Message, Notification, Way};
use breakerbox_model::objects::{Id, NotificationId, Secret};
use breakerbox_testkit::mail::{MailServer, Security};
use breakerbox_testkit::receiver::{Behaviour, Receiver};
use http::{HeaderMap, HeaderName, HeaderValue};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};

fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_micros(u64::try_from(now.as_micros()).unwrap())
}

fn message() -> Message {
    let tenant = "acme".parse().unwrap();
    let url = "https://a.example/";
    let why = "it answered <b>400</b> & no more";
    let notification =
        Notification::reminder_stopped(tenant, "rem_1", 3, url, why, LastResult::default(), now());
    Message::of(NotificationId(Id::first_at(now())), &notification)
}

fn post(addresses: AddressPolicy, mailer: Option<Mailer>) -> MessageSender {
    let sender = Sender::new(&SendSettings { addresses, ..SendSettings::default() }).unwrap();
    MessageSender::new(Arc::new(sender), mailer)
}

fn loopback() -> AddressPolicy {
    AddressPolicy::allowing(vec!["127.0.0.0/8".parse().unwrap()])
}

/// The requests that a receiver got: relevant headers, and the body.
type ReceivedMessages = Arc<Mutex<Vec<(HeaderMap, Vec<u8>)>>>;

fn receiver() -> (Receiver, ReceivedMessages) {
    let kept = ReceivedMessages::default();
    let keeps = Arc::clone(&kept);
    let receiver = Receiver::builder().check(move |received| {
        let names = ["content-type", "user-agent", "webhook-id", "webhook-timestamp", "webhook-signature"];
        let found = names.iter().filter_map(|name| {
            let value = HeaderValue::from_str(received.header(name)?).ok()?;
            Some((HeaderName::from_static(name), value))
        });
        keeps.lock().unwrap().push((found.collect(), received.body.to_vec()));
        true
    });
    (receiver.start().unwrap(), kept)
}

#[tokio::test]
async fn a_webhook_is_signed_like_a_delivery() {
    let (receiver, kept) = receiver();
    let secret = Secret::random();
    let way = Way::Webhook { url: receiver.url("/notifications").parse().unwrap(), secret: secret.clone() };
    let message = message();
    let delivered = post(loopback(), None).send(None, &way, &message, now()).await;
    assert_eq!(delivered, Delivered::new(true, "200"));
    let (headers, body) = kept.lock().unwrap().pop().unwrap();
    assert_eq!(headers["webhook-id"], message.id.as_str());
    assert!(message.id.starts_with("ntf_"));
    assert_eq!(headers["content-type"], "application/json");
    let seconds = now().as_micros() / 1_000_000;
    Signer::new(&[secret]).verify(&headers, &body, seconds).unwrap();
    assert!(Signer::new(&[Secret::random()]).verify(&headers, &body, seconds).is_err());
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), message.json);

    receiver.set("/notifications", Behaviour::come_back(503, 1));
    let delivered = post(loopback(), None).send(None, &way, &message, now()).await;
    assert_eq!(delivered, Delivered::new(false, "503"));
}

#[tokio::test]
async fn slack_gets_a_text_that_means_what_it_says() {
    let (receiver, kept) = receiver();
    let way = Way::Slack { url: receiver.url("/services/T0/B0/token").parse().unwrap() };
    let message = message();
    assert!(post(loopback(), None).send(None, &way, &message, now()).await.well);
    let (headers, body) = kept.lock().unwrap().pop().unwrap();
    assert!(headers.get("webhook-signature").is_none());
    let body: Value = serde_json::from_slice(&body).unwrap();
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with("*acme: the reminder rem_1 has stopped*\n"), "{text}");
    assert!(text.contains("it answered &lt;b&gt;400&lt;/b&gt; &amp; no more"), "{text}");
    assert_eq!(body, json!({ "text": text }));
}

#[tokio::test]
async fn targets_go_by_the_address_policy() {
    let (receiver, kept) = receiver();
    for way in [
        Way::Webhook { url: receiver.url("/").parse().unwrap(), secret: Secret::random() },
        Way::Slack { url: receiver.url("/").parse().unwrap() },
        Way::Slack { url: format!("http://localhost:{}/", receiver.address().port()).parse().unwrap() },
    ] {
        let delivered = post(AddressPolicy::default(), None).send(None, &way, &message(), now()).await;
        assert!(!delivered.well && delivered.answer.starts_with("address_denied"), "{delivered:?}");
    }
    assert!(kept.lock().unwrap().is_empty());
}

/// Returns a server's TLS configuration, and the file that makes a client trust it.
fn identity(folder: &tempfile::TempDir) -> (Arc<ServerConfig>, std::path::PathBuf) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".into()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let file = folder.path().join("own.pem");
    std::fs::write(&file, cert.pem()).unwrap();
    (Arc::new(config), file)
}

fn mailer(scheme: &str, server: &MailServer, ca_file: Option<&std::path::Path>) -> Mailer {
    let url = format!("{scheme}://robot@localhost:{}", server.address().port());
    let server = Server {
        url: url.parse().unwrap(),
        password: Some("very secret".into()),
        from: "Breakerbox <box@example.com>".parse().unwrap(),
        ca_files: ca_file.iter().map(|file| file.to_path_buf()).collect(),
    };
    Mailer::new(&server, Duration::from_secs(30)).unwrap()
}

#[tokio::test]
async fn mails_arrive_with_and_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (config, file) = identity(&folder);
    let way =
        Way::Email { to: vec!["ops@example.com".parse().unwrap(), "boss@example.com".parse().unwrap()] };
    for (scheme, security, by_tls) in [
        ("smtp+plain", Security::Plain, false),
        ("smtp", Security::StartTls(Arc::clone(&config)), true),
        ("smtps", Security::Tls(Arc::clone(&config)), true),
    ] {
        let server = MailServer::start(security).unwrap();
        let message = message();
        let mailer = mailer(scheme, &server, Some(&file));
        let delivered = post(AddressPolicy::default(), Some(mailer)).send(None, &way, &message, now()).await;
        assert_eq!(delivered, Delivered::new(true, "250"), "{scheme}");
        let mails = server.mails();
        assert_eq!(mails.len(), 1, "{scheme}");
        let mail = &mails[0];
        assert_eq!((mail.from.as_str(), mail.by_tls), ("box@example.com", by_tls));
        assert_eq!(mail.to, ["ops@example.com", "boss@example.com"]);
        assert!(mail.credentials.is_some());
        for part in [
            "From: Breakerbox <box@example.com>",
            "Subject: acme: the reminder rem_1 has stopped",
            "What happens next: the reminder does not fire again.",
            &format!("Message-ID: <{}@example.com>", message.id),
        ] {
            assert!(mail.text.contains(part), "{part}\n{}", mail.text);
        }
    }
}

#[tokio::test]
async fn a_mail_that_is_not_taken_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = identity(&folder);
    let way = Way::Email { to: vec!["ops@example.com".parse().unwrap()] };
    let send = async |mailer: Option<Mailer>| {
        let delivered = post(AddressPolicy::default(), mailer).send(None, &way, &message(), now()).await;
        assert!(!delivered.well);
        delivered.answer
    };
    let plain = MailServer::start(Security::Plain).unwrap();
    plain.refuse(Some("451 come back later"));
    let answer = send(Some(mailer("smtp+plain", &plain, None))).await;
    assert!(answer.contains("451"), "{answer}");
    assert!(plain.mails().is_empty());
    // A mail that requires TLS is never sent without it, or to an untrusted server.
    let answer = send(Some(mailer("smtp", &plain, None))).await;
    assert!(answer.to_lowercase().contains("starttls"), "{answer}");
    let stranger = MailServer::start(Security::StartTls(config)).unwrap();
    let answer = send(Some(mailer("smtp", &stranger, None))).await;
    assert!(answer.to_lowercase().contains("certificate"), "{answer}");
    assert!(stranger.mails().is_empty());
    assert_eq!(send(None).await, "no mail server is configured; set notify.smtp_url");
}
