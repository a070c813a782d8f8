//! The guide to limits: every command works, and prints what the guide shows.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::site::Site;
use super::things::Things;

/// Returns whether a response (`said`) contains everything that the guide shows (`shown`).
fn shows(shown: &Value, said: &Value) -> bool {
    match shown {
        Value::Object(fields) => {
            fields.iter().all(|(name, shown)| said.get(name).is_some_and(|said| shows(shown, said)))
        }
        _ => shown == said,
    }
}

/// Runs a shell command line, and returns its output.
fn run(line: &str, site: &Site, things: &Things) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_breakerbox"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let options =
        if line.starts_with("curl") { " --silent --show-error --fail-with-body --max-time 60" } else { "" };
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{line}{options}")).env("PATH", path).env("no_proxy", "*");
    let url = format!("http://{}", site.address);
    shell
        .env("URL", &url)
        .env("KEY", &site.admin)
        .env("BREAKERBOX_URL", &url)
        .env("BREAKERBOX_API_KEY", &site.admin);
    for name in ["endpoint", "circuit", "reminder"] {
        shell.env(name.to_uppercase(), things.fill(&format!("{{{name}}}")));
    }
    let ran = tokio::task::block_in_place(|| shell.output()).unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{line}: {said} {}", String::from_utf8_lossy(&ran.stderr));
    said
}

/// Checks a page: runs its commands, and compares their output with the block that follows. Returns the number of
/// commands, and of blocks.
pub(super) fn tried(page: &str, site: &Site, things: &Things) -> (usize, usize) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page);
    let page = std::fs::read_to_string(page).unwrap();
    let (mut commands, mut examples) = (0, 0);
    let mut said = String::new();
    for block in page.split("```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').unwrap();
        match language {
            "sh" => {
                for line in text.lines() {
                    said = run(line, site, things);
                    commands += 1;
                }
            }
            "json" => {
                let shown: Value = serde_json::from_str(text).unwrap();
                assert!(shows(&shown, &serde_json::from_str(&said).unwrap()), "{shown}\n{said}");
                examples += 1;
            }
            // A diagram, which is not checked.
            "mermaid" | "text picture" => {}
            _ => {
                let has = |line: &str| said.lines().any(|said| said == line);
                assert!(text.lines().all(has), "{text}\n{said}");
                examples += 1;
            }
        }
    }
    (commands, examples)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_to_limits_does_as_it_says() {
    let site = Site::start().await;
    let things = Things::of(&site, "acme").await;
    let (commands, examples) = tried("limits.md", &site, &things);
    assert!(commands >= 14 && examples >= 4, "{commands} {examples}");
}
