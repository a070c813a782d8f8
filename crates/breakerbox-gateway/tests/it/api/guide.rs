//! The API guide: every command works, and every code is explained.

use std::path::Path;
use std::process::Command;

use breakerbox_gateway::api::Code;
use serde_json::json;

use super::site::Site;
use super::things::Things;

fn guide() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/api.md");
    std::fs::read_to_string(path).unwrap()
}

fn commands(guide: &str) -> Vec<String> {
    let blocks = guide.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks
        .flat_map(|block| block.lines().filter(|line| line.starts_with("curl")).map(str::to_owned))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_works() {
    let site = Site::start().await;
    let things = Things::of(&site, "default").await;
    // The guide creates it itself.
    site.request(http::Method::DELETE, "/v1/tenants/acme", &site.admin, None).await.expect(204);
    let commands = commands(&guide());
    assert!(commands.len() > 30, "{}", commands.len());
    let mut statuses = Vec::new();
    for command in &commands {
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(format!("{command} --silent --show-error --max-time 60 --write-out '\\n%{{http_code}}'"));
        shell.env("URL", format!("http://{}", site.address)).env("KEY", &site.admin);
        shell.env("no_proxy", "*");
        for name in ["endpoint", "event", "delivery", "circuit", "reminder"] {
            shell.env(name.to_uppercase(), things.fill(&format!("{{{name}}}")));
        }
        let ran = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().expect("curl is there");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let status = said.lines().last().unwrap_or_default().to_owned();
        assert!(status.starts_with('2'), "{command}: {said} {}", String::from_utf8_lossy(&ran.stderr));
        statuses.push(status);
    }
    assert!(statuses.iter().filter(|status| *status == "202").count() >= 3);
}

#[test]
fn every_code_is_explained_with_its_status() {
    let guide = guide();
    for code in Code::ALL {
        let row = format!("| `{}` | {} | ", code.name(), code.status());
        assert!(guide.contains(&row), "{row}");
    }
    let rows = guide
        .split("| code | status | when |")
        .nth(1)
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), Code::ALL.len(), "and no others");
}

#[test]
fn the_example_of_a_problem_is_one() {
    let guide = guide();
    let example = guide.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let example: serde_json::Value = serde_json::from_str(example).unwrap();
    let code = Code::ALL.iter().find(|code| example["code"] == code.name()).unwrap();
    assert_eq!((&example["status"], &example["title"]), (&json!(code.status()), &json!(code.title())));
}
