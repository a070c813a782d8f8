//! Compares signatures with the official Standard Webhooks library for Python receivers. It is installed into the
//! build directory if it is missing there.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use breakerbox_model::delivery::{Signer, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use breakerbox_model::objects::Secret;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

const LIBRARY: &str = "standardwebhooks==1.1.0";

/// A Python program that verifies each case with each secret, and signs it with the first one.
const RECEIVER: &str = r#"
import json, sys
from datetime import datetime, timezone
from standardwebhooks import Webhook

def believes(secret, case):
    try:
        Webhook(secret).verify(case["payload"], case["headers"], json_parse=False)
        return True
    except Exception:
        return False

answers = []
for case in json.load(sys.stdin):
    at = datetime.fromtimestamp(int(case["headers"]["webhook-timestamp"]), timezone.utc)
    answers.append({
        "believed": [believes(secret, case) for secret in case["secrets"]],
        "signature": Webhook(case["secrets"][0]).sign(case["headers"]["webhook-id"], at, case["payload"]),
    })
json.dump(answers, sys.stdout)
"#;

/// Returns the directory with the official Python library, which is installed if necessary. Several tests may install
/// it at once, so it is moved into place atomically.
fn library() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(LIBRARY.replace("==", "-"));
    if !folder.exists() {
        let fresh = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.arg("--target").arg(fresh.path()).arg(LIBRARY);
        let output = pip.output().expect("python3 is missing; install python3 and python3-pip");
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{LIBRARY} can't be installed; is python3-pip there, and a package index?\n{problem}"
        );
        if std::fs::rename(fresh.path(), &folder).is_err() {
            assert!(folder.exists(), "{LIBRARY} was installed, and can't be moved to {}", folder.display());
        }
    }
    folder
}

fn ask(cases: &Value) -> Value {
    let mut python = Command::new("python3");
    python.args(["-c", RECEIVER]).env("PYTHONPATH", library()).env("PYTHONIOENCODING", "utf-8");
    let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(cases.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the receiver in Python failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_official_library_believes_us_and_we_believe_it() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (first, second, stranger) =
        (Secret::random(), Secret::new(vec![0xff; 24]).unwrap(), Secret::random());
    let long = "ä".repeat(100_000);
    let payloads = ["", "{}", r#"{"test": 2432232314}"#, "no JSON. at all\r\n\0", "😀 ünïcödé", &long];
    let both = [first.clone(), second.clone()];
    let signers = [&both[..1], &both[..]].map(Signer::new);
    let case = |signer: &Signer, payload: &str| {
        let mut headers = HeaderMap::new();
        signer.add_to(&mut headers, "evt_01hv7k3m9q2xa", now, payload.as_bytes());
        let headers: serde_json::Map<_, _> =
            headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().into())).collect();
        let secrets = [&first, &second, &stranger].map(Secret::reveal);
        json!({"secrets": secrets, "headers": headers, "payload": payload})
    };
    let cases: Vec<_> =
        signers.iter().flat_map(|signer| payloads.map(|payload| case(signer, payload))).collect();
    let answers = ask(&json!(cases));
    for (place, (case, answer)) in cases.iter().zip(answers.as_array().unwrap()).enumerate() {
        let has_both = place >= payloads.len();
        assert_eq!(answer["believed"], json!([true, has_both, false]), "{place}");
        let headers: HeaderMap = [
            (WEBHOOK_ID, HeaderValue::from_static("evt_01hv7k3m9q2xa")),
            (WEBHOOK_TIMESTAMP, HeaderValue::from(now)),
            (WEBHOOK_SIGNATURE, HeaderValue::from_str(answer["signature"].as_str().unwrap()).unwrap()),
        ]
        .into_iter()
        .collect();
        let payload = case["payload"].as_str().unwrap().as_bytes();
        assert_eq!(signers[0].verify(&headers, payload, now), Ok(()), "{place}");
        assert!(Signer::new(&both[1..]).verify(&headers, payload, now).is_err(), "{place}");
    }
    assert_eq!(answers.as_array().map(Vec::len), Some(2 * payloads.len()));
}
