//! The guide to the decision API: its commands work, its examples match the responses, and it lists all values.

use std::process::Command;

use breakerbox_gateway::telemetry::labels::{Label, PermitEnd, PermitRefused};
use breakerbox_testkit::receiver::Receiver;
use serde_json::{Value, json};

use super::rig::{Rig, URL};
use crate::root;

fn guide() -> String {
    std::fs::read_to_string(root().join("docs/guide/decisions.md")).unwrap()
}

fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    guide().split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_works_one_after_the_other() {
    let rig = Rig::start(json!({})).await;
    let receiver = Receiver::start().unwrap();
    let quiet = "set -eu\ncurl() { command curl --silent --show-error --fail --max-time 60 \"$@\"; echo; }\n";
    let script = format!("{quiet}{}", blocks("sh").concat());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(&script).env("no_proxy", "*");
    shell.env("URL", rig.url()).env("KEY", &rig.key).env("DESTINATION", receiver.url("/in"));
    let ran = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap();
    let result = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{result} {}", String::from_utf8_lossy(&ran.stderr));
    let answers: Vec<Value> = result.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(receiver.seen("/in").delivered, 1);
    assert_eq!(answers[0], json!({ "settled": "counted", "repeated": false, "wait_ms": null }));
    assert!(
        answers[1]["items"].as_array().unwrap().iter().all(|item| item["permit"].is_object()),
        "{result}"
    );
    assert!(answers[2]["items"].as_array().unwrap().iter().all(|item| item["repeated"] == true), "{result}");
    assert_eq!(answers.len(), 3, "{result}");
}

#[tokio::test]
async fn its_examples_have_the_fields_that_answers_have() {
    fn names(value: &Value) -> Vec<String> {
        let Some(fields) = value.as_object() else { return vec![] };
        fields.iter().flat_map(|(name, inner)| [vec![name.clone()], names(inner)].concat()).collect()
    }
    let rig = Rig::start(json!({ "cool_off": "60s" })).await;
    let given = rig.acquire(json!({ "url": URL })).await;
    let settled = rig.settle(&given["permit"], json!({ "outcome": "ignored" })).await;
    rig.trip(URL).await;
    let refused = rig.acquire(json!({ "url": URL })).await;
    let shown: Vec<Value> = blocks("json").iter().map(|block| serde_json::from_str(block).unwrap()).collect();
    let answered = [given, refused, settled];
    assert_eq!(shown.iter().map(names).collect::<Vec<_>>(), answered.iter().map(names).collect::<Vec<_>>());
}

#[test]
fn every_word_that_can_be_answered_is_explained() {
    let guide = guide();
    let rows: String = guide.lines().filter(|line| line.starts_with("| `")).collect();
    for reason in PermitRefused::ALL {
        assert!(rows.contains(&format!("`{}`", reason.word())), "{}", reason.word());
    }
    // `repeated` is a field of its own, and not a value of `settled`.
    for end in PermitEnd::ALL.iter().filter(|end| end.word() != "repeated") {
        assert!(rows.contains(&format!("| `{}` |", end.word())), "{}", end.word());
    }
}
