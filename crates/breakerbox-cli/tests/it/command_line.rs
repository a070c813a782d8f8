//! The whole command line: its documentation, completions and invalid arguments.

use crate::command::root;
use crate::program::Program;

/// Returns every command, or every action of a command, with its description, according to the help.
pub(crate) fn listed(command: &[&str]) -> Vec<(String, String)> {
    let help = Program::new(command).args(&["--help"]).run().stdout;
    let lines = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    // The further lines of a long description have a larger indent.
    let names = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let parts = names.map(|line| line.trim().split_once(' ').unwrap_or((line.trim(), "")));
    let parts = parts.filter(|(name, _)| *name != "help");
    parts.map(|(name, what)| (name.to_owned(), what.trim().to_owned())).collect()
}

fn commands() -> Vec<String> {
    listed(&[]).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn the_guide_has_every_command_and_every_action() {
    let page = std::fs::read_to_string(root().join("docs/guide/cli.md")).unwrap();
    let commands = commands();
    assert!(commands.len() >= 11, "{commands:?}");
    for command in commands {
        assert!(page.contains(&format!("`breakerbox {command}")), "docs/guide/cli.md lacks {command}");
        for (action, _) in listed(&[&command]) {
            let named = page.contains(&format!("`breakerbox {command} {action}"));
            assert!(named, "docs/guide/cli.md lacks {command} {action}");
        }
    }
}

#[test]
fn shells_can_complete_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = Program::new(&["completions", shell]).run();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        for command in commands() {
            assert!(ended.stdout.contains(&command), "{shell}: {command}");
        }
        assert!(ended.stdout.contains("delivery-timeout"), "{shell} knows the settings");
    }
}

#[test]
fn bad_arguments_are_exit_code_2() {
    let table: &[&[&str]] = &[
        &[],
        &["serv"],
        &["serve", "--lissten", "x"],
        &["tenants"],
        &["circuits", "reset", "c1"],
        &["listen", "--status", "99"],
        &["completions", "tcsh"],
        &["deliveries", "list", "--limit", "-1"],
        &["deliveries", "list", "--limit", "0"],
    ];
    for arguments in table {
        let ended = Program::new(arguments).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{arguments:?}");
    }
}

#[test]
fn bad_arguments_are_json_for_programs() {
    for (arguments, expected) in [
        (
            &["--json", "serv"][..],
            "unrecognized subcommand 'serv'; tip: a similar subcommand exists: 'serve'",
        ),
        (&["--json"], "requires a subcommand"),
        (&["tenants", "--json"], "requires a subcommand"),
        (
            &["deliveries", "list", "--limit", "x", "--json"],
            "'--limit <N>': must be a whole number, 1 or more",
        ),
        (&["circuits", "reset", "c1", "--json"], "--reason <"),
        (&["tenants", "list", "--json", "--lmit", "3"], "unexpected argument '--lmit' found"),
    ] {
        let ended = Program::new(arguments).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{arguments:?}");
        let problem: serde_json::Value = serde_json::from_str(&ended.stderr).expect("JSON alone");
        assert_eq!(problem["code"], "input", "{arguments:?}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(expected) && !detail.contains('\n'), "{arguments:?}: {detail}");
    }
    // Help is not an error.
    let ended = Program::new(&["tenants", "--json", "--help"]).run();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert!(ended.stdout.contains("Usage:"));
}

#[test]
fn hostile_arguments_do_no_harm() {
    let long = "x".repeat(100_000);
    for text in ["", "\u{1b}[2J", "é\u{202e}", "../../etc/passwd", "%00", &long] {
        for arguments in [
            &["tenants", "show", text, "--url", "http://127.0.0.1:1"][..],
            &["tenants", "list", "--url", text],
            &["send", text, "{}", "--url", "http://127.0.0.1:1"],
            &["send", "a", text, "--url", "http://127.0.0.1:1"],
            &["keys", "revoke", text, "--url", "http://127.0.0.1:1"],
            &["listen", "--listen", text],
            &["listen", "--secret", text],
            &["serve", "--print-config", "--listen", text],
            &["serve", "--print-config", "--config", text],
            &["serve", "--print-config", "--policy-window", text],
        ] {
            let ended = if arguments[..2] == ["listen", "--secret"] && text.is_empty() {
                continue;
            } else {
                Program::new(arguments).run()
            };
            assert!((1..=4).contains(&ended.code), "{arguments:.80?}: {ended:?}");
            assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        }
    }
}
