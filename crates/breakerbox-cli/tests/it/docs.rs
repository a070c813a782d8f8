//! Checks claims in the documentation by running commands.

use std::path::PathBuf;

use breakerbox_core::PolicyBuilder;

use crate::command::{Replay, root};

pub(crate) fn markdown_files() -> Vec<PathBuf> {
    let mut folders = vec![root().to_path_buf(), root().join("docs")];
    let mut files = vec![];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.starts_with(root().join("docs")) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the fenced code blocks in one language.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

#[test]
fn every_policy_in_the_documentation_is_a_policy() {
    let mut policies = 0;
    for path in markdown_files() {
        for block in blocks(&std::fs::read_to_string(&path).unwrap(), "toml") {
            let builder: PolicyBuilder =
                toml::from_str(&block).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            builder.build().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            policies += 1;
        }
    }
    assert!(policies >= 4, "the guide shows at least the four presets, not {policies}");
}

/// Runs all commands in the documentation that begin with `cargo run --release -- replay`, from the repository's root.
#[test]
fn every_replay_command_in_the_documentation_runs() {
    let mut commands = 0;
    for path in markdown_files() {
        for block in blocks(&std::fs::read_to_string(&path).unwrap(), "sh") {
            for line in block.lines() {
                let Some(arguments) = line.strip_prefix("cargo run --release -- replay") else { continue };
                let mut replay = Replay::new();
                let words = arguments.split_whitespace().take_while(|word| !word.starts_with(['>', '|']));
                for word in words {
                    // A command reads files in the repository, and writes to the test's directory.
                    replay = if word.starts_with("examples/") {
                        replay.arg(root().join(word))
                    } else {
                        replay.arg(word)
                    };
                }
                let ran = replay.run("");
                assert_eq!(ran.code, 0, "{}: {line}: {}", path.display(), ran.stderr);
                commands += 1;
            }
        }
    }
    assert!(commands >= 3, "README and guide show replays, not {commands}");
}

/// The lines that the guide shows are lines that a replay accepts.
#[test]
fn every_line_of_traffic_in_the_replay_guide_is_accepted() {
    let guide = std::fs::read_to_string(root().join("docs/guide/replay.md")).unwrap();
    let traffic = [blocks(&guide, "json"), blocks(&guide, "csv")].concat();
    assert_eq!(traffic.len(), 3, "calls in both formats, and samples");
    for block in traffic {
        let ran = Replay::new().run(&block);
        assert_eq!(ran.code, 0, "{block}: {}", ran.stderr);
        assert!(ran.stderr.contains("1 key over"), "{}", ran.stderr);
    }
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    for path in markdown_files() {
        let text = std::fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if target.starts_with("http") || target.starts_with('#') {
                continue;
            }
            let file = path.parent().unwrap().join(target.split('#').next().unwrap());
            assert!(file.exists(), "{} links to {target}", path.display());
        }
    }
}

#[test]
fn the_help_names_every_preset_and_exit_code() {
    let ran = Replay::new().arg("--help").run("");
    // The help is wrapped.
    let help = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "convoy, reminders, redis_lua or stoplight",
        "Exit codes: 0",
        "{\"at_ms\":0,\"samples\"",
        "\"fault\":\"timeout\"",
    ] {
        assert!(help.contains(text), "{text}");
    }
}
