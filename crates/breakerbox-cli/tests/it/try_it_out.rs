//! The guide's tour with real processes: a gateway, a receiver, and every command. The commands and the API must use
//! the same field names.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Program, ProgramOutput};

/// A process that is killed when dropped.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(arguments: &[&str], folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_breakerbox"))
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Returns the output up to the line that contains this string.
    fn lines_until(&mut self, part: &str) -> String {
        let mut text = String::new();
        while !text.contains(part) {
            assert_ne!(
                self.output.read_line(&mut text).unwrap(),
                0,
                "it ended without saying {part}: {text}"
            );
        }
        text
    }

    /// Returns the first word of the output that starts with `beginning`.
    fn word(&mut self, beginning: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended without saying {beginning}");
            let trimmed = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
            if let Some(word) = line.split([' ', '"', ',', '\n']).find(|word| word.starts_with(beginning)) {
                return trimmed(word);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Tour {
    url: String,
    key: String,
}

impl Tour {
    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let program = Program::new(arguments).args(&["--json"]);
        program.env("BREAKERBOX_URL", &self.url).env("BREAKERBOX_API_KEY", &self.key).run()
    }

    /// Starts a command that prints JSON Lines until it is stopped.
    fn watch(&self, arguments: &[&str], folder: &Path) -> Running {
        let given = ["--json", "--url", &self.url, "--key", &self.key];
        Running::start(&[arguments, &given].concat(), folder)
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.run(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
        if ended.stdout.trim().is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&ended.stdout).unwrap()
        }
    }

    /// Waits until `/readyz` contains this string.
    #[track_caller]
    fn wait_until_ready_says(&self, part: &str) {
        let began = Instant::now();
        loop {
            let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).unwrap();
            stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            if said.contains(part) {
                assert!(said.starts_with("HTTP/1.1 200"), "it is ready all the same: {said}");
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{said}");
        }
    }

    /// Repeats a command until its result meets the condition.
    #[track_caller]
    fn until(&self, arguments: &[&str], is_so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let answer = self.json(arguments);
            if is_so(&answer) {
                return answer;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{arguments:?}: {answer}");
        }
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

/// Output that is not a terminal may be a log, where a printed key would leak.
#[test]
fn a_first_start_whose_output_goes_to_a_log_makes_no_key_and_says_how_to_get_one() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", data, "--log-level", "off"];
    let mut gateway = Running::start(&arguments, folder.path());
    gateway.word("http://");
    let said = gateway.lines_until("BREAKERBOX_INITIAL_ADMIN_KEY");
    assert!(said.contains(&format!("breakerbox keys create --data {data}")), "{said}");
    assert!(!said.split([' ', '\n']).any(|word| word.starts_with("bbx_")), "{said}");
    drop(gateway);
    let created =
        Program::new(&["keys", "create", "--data", data, "--name", "a", "--scope", "admin", "--quiet"]).run();
    assert_eq!(created.code, 0, "{}", created.stderr);

    let mut gateway = Running::start(&arguments, folder.path());
    let tour = Tour { url: gateway.word("http://"), key: created.stdout.trim().to_owned() };
    assert_eq!(text(&tour.json(&["tenants", "show", "default"]), "/id"), "default");
}

#[test]
fn a_first_key_can_be_written_to_a_file_or_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--log-level", "off"];
    let file = folder.path().join("admin.key");
    let file = file.to_str().unwrap();
    let chosen = format!("bbx_{}A", "B".repeat(42));
    std::fs::write(folder.path().join("chosen"), format!("{chosen}\n")).unwrap();
    std::fs::set_permissions(folder.path().join("chosen"), PermissionsExt::from_mode(0o600)).unwrap();
    for (data, flags) in
        [("written", ["--admin-key-file", file]), ("given", ["--initial-admin-key-file", "chosen"])]
    {
        let arguments: Vec<_> = serve.into_iter().chain(flags).chain(["--data", data]).collect();
        let mut gateway = Running::start(&arguments, folder.path());
        let url = gateway.word("http://");
        let key = if data == "written" { std::fs::read_to_string(file).unwrap() } else { chosen.clone() };
        let tour = Tour { url, key: key.trim().to_owned() };
        assert_eq!(text(&tour.json(&["tenants", "show", "default"]), "/id"), "default", "{data}");
    }
    let mode = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn the_tour_of_the_guide() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--dev", "--log-level", "off"];
    let mut gateway = Running::start(&arguments, folder.path());
    let key = gateway.word("bbx_");
    let url = gateway.word("http://");
    let tour = Tour { url, key };
    tour.wait_until_ready_says("dev: trial mode");

    // A receiver, and an endpoint for it.
    let mut secretless = Running::start(&["listen", "--listen", "127.0.0.1:0", "--json"], folder.path());
    let destination = format!("{}/", secretless.word("http://"));
    let endpoint = tour.json(&["endpoints", "create", &destination, "--type", "invoice.*", "timeout=5s"]);
    let (endpoint_id, secret) = (text(&endpoint, "/id").to_owned(), text(&endpoint, "/secret").to_owned());
    assert_eq!(text(&tour.json(&["endpoints", "secrets", &endpoint_id]), "/secrets/0/secret"), secret);

    // An event is delivered.
    let event = tour.json(&["send", "invoice.paid", "{\"amount\": 1200}", "--priority", "high"]);
    assert_eq!(event["deliveries"], 1);
    let of_event = ["deliveries", "list", "--event", text(&event, "/id")];
    let delivered = tour.until(&of_event, |found| found.pointer("/0/state") == Some(&"delivered".into()));
    let delivery = text(&delivered, "/0/id");
    assert_eq!(tour.json(&["deliveries", "attempts", delivery])[0]["status"], 200);
    assert_eq!(text(&tour.json(&["deliveries", "show", delivery]), "/type"), "invoice.paid");
    tour.json(&["deliveries", "resend", delivery]);
    tour.json(&["deliveries", "resend-all", "--endpoint", &endpoint_id]);
    assert_eq!(tour.json(&["endpoints", "test", &endpoint_id])["ok"], true);

    // The event, with its payload, and the delivery, watched.
    assert_eq!(tour.json(&["events", "show", text(&event, "/id")])["payload"]["amount"], 1200);
    assert_eq!(
        tour.json(&["events", "list", "--type", "invoice.paid", "--from", "1h"])[0]["id"],
        event["id"]
    );
    let mut watching = tour.watch(&["deliveries", "watch", "--from", "1h"], folder.path());
    assert!(watching.lines_until(delivery).contains("invoice.paid"));
    // Short ids and URLs are names.
    let end = |id: &str| id[id.len() - 8..].to_owned();
    assert_eq!(text(&tour.json(&["deliveries", "show", &end(delivery)]), "/id"), delivery);
    assert_eq!(text(&tour.json(&["endpoints", "show", &destination]), "/id"), endpoint_id);
    assert_eq!(text(&tour.json(&["endpoints", "show", &end(&endpoint_id)]), "/id"), endpoint_id);

    // Circuits, addressed by their endpoint.
    let forced = tour.json(&["circuits", "force-open", &endpoint_id, "--reason", "a tour"]);
    assert_eq!((text(&forced, "/state"), text(&forced, "/mode/reason")), ("open", "a tour"));
    let circuit = text(&forced, "/id");
    let mut watching = tour.watch(&["circuits", "watch", &destination], folder.path());
    assert!(watching.lines_until("force_open").contains("\"to\":\"open\""));
    assert_eq!(text(&tour.json(&["circuits", "show", text(&forced, "/fingerprint")]), "/id"), circuit);
    tour.until(&["circuits", "list", "--state", "open"], |found| {
        found.pointer("/0/id") == Some(&circuit.into())
    });
    let waiting = tour.json(&["send", "invoice.paid"]);
    // The delivery may have been leased when it was accepted, and is then given back.
    let of_waiting = ["deliveries", "list", "--event", text(&waiting, "/id")];
    let parked = tour.until(&of_waiting, |found| found.pointer("/0/parked") == Some(&true.into()));
    tour.json(&["deliveries", "cancel", text(&parked, "/0/id")]);
    for (order, state) in [
        ("force-closed", "closed"),
        ("disable", "disabled"),
        ("enable", "open"),
        ("release", "open"),
        ("reset", "closed"),
    ] {
        let shown = tour.json(&["circuits", order, circuit, "--reason", "a tour"]);
        assert_eq!(text(&shown, "/state"), state, "{order}");
    }
    assert_eq!(text(&tour.json(&["circuits", "show", circuit]), "/state"), "closed");
    tour.until(&["circuits", "history", circuit], |found| {
        found.pointer("/0/cause") == Some(&"reset".into())
            && found.pointer("/0/reason") == Some(&"a tour".into())
    });

    // Endpoints and tenants.
    assert_eq!(tour.json(&["endpoints", "change", &endpoint_id, "max_in_flight=8"])["max_in_flight"], 8);
    assert_eq!(tour.json(&["endpoints", "disable", &endpoint_id])["disabled_reason"], "owner");
    assert_eq!(tour.json(&["endpoints", "enable", &endpoint_id])["enabled"], true);
    assert_eq!(
        tour.json(&["endpoints", "rotate", &endpoint_id])["secrets"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(tour.json(&["tenants", "create", "acme", "name=Acme"])["name"], "Acme");
    let changed = tour.json(&["tenants", "change", "acme", "policy={\"window\":\"5m\"}", "retry=[\"1s\"]"]);
    assert_eq!(changed["policy"]["window"], "5m");
    assert_eq!(tour.json(&["tenants", "disable", "acme"])["enabled"], false);
    assert_eq!(tour.json(&["tenants", "enable", "acme"])["enabled"], true);
    assert_eq!(text(&tour.json(&["tenants", "show", "acme"]), "/id"), "acme");
    tour.json(&["tenants", "secrets", "acme"]);
    assert_eq!(tour.json(&["tenants", "list"]).as_array().map(Vec::len), Some(2));

    // Reminders, with a receiver.
    let created = tour.json(&[
        "reminders",
        "create",
        &destination,
        "--every",
        "1s",
        "--max-runs",
        "2",
        "--reference",
        "tour",
    ]);
    let reminder = text(&created, "/id").to_owned();
    tour.until(&["reminders", "show", &reminder], |shown| shown["state"] == "finished");
    let runs = tour.json(&["reminders", "runs", &reminder]);
    assert_eq!((runs[0]["number"].as_u64(), text(&runs[0], "/state")), (Some(2), "delivered"));
    assert_eq!(
        tour.json(&["reminders", "list", "--tenant", "default", "--reference", "tour"])[0]["id"],
        reminder
    );
    let later =
        tour.json(&["reminders", "create", &destination, "--at", "2099-01-01T00:00:00Z", "--payload", "[1]"]);
    let later = text(&later, "/id").to_owned();
    let changed =
        tour.json(&["reminders", "change", &later, "--cron", "0 9 * * *", "--time-zone", "Asia/Tokyo"]);
    assert_eq!(text(&changed, "/next_at"), "2099-01-01T00:00:00.000Z");
    assert_eq!(tour.json(&["reminders", "pause", &later])["state"], "paused");
    assert_eq!(tour.json(&["reminders", "resume", &later])["state"], "active");
    tour.json(&["reminders", "run", &later]);
    tour.until(&["reminders", "runs", &later], |runs| runs.pointer("/0/state") == Some(&"delivered".into()));
    assert_eq!(tour.json(&["reminders", "cancel", &later])["state"], "cancelled");
    assert_eq!(tour.run(&["reminders", "pause", &later]).code, 4);
    assert_eq!(tour.run(&["reminders", "create", &destination, "--cron", "0 25 * * *"]).code, 2);
    let times = tour.json(&[
        "reminders",
        "preview",
        "--every",
        "24h",
        "--from",
        "2030-01-01T00:00:00Z",
        "--count",
        "2",
    ]);
    assert_eq!(text(&times[1], "/local"), "2030-01-02T00:00:00+00:00");

    // Keys: one that may only send, and is then revoked.
    let arguments =
        ["keys", "create", "--name", "ci", "--scope", "send", "--tenant", "acme", "--expires-after", "1h"];
    let created = tour.json(&arguments);
    let sender = Tour { url: tour.url.clone(), key: text(&created, "/key").into() };
    assert_eq!(sender.json(&["send", "a"])["deliveries"], 0);
    assert_eq!(sender.run(&["tenants", "list"]).code, 4);
    assert_eq!(tour.json(&["keys", "list", "--tenant", "acme"])[0]["name"], "ci");
    assert!(tour.json(&["keys", "revoke", text(&created, "/id")])["revoked_at"].is_string());
    assert_eq!(sender.run(&["send", "a"]).code, 4);
    assert_eq!(tour.run(&["endpoints", "create", "gopher://x"]).code, 2);

    tour.json(&["tenants", "delete", "acme"]);
    assert!(tour.json(&["endpoints", "delete", &endpoint_id])["cancelled"].is_number());
}
