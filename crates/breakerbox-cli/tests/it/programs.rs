//! The programs in the guides, in Python and JavaScript, run as a reader would run them: as files, against a real gateway
//! and real receivers.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver as Lines, channel};
use std::time::{Duration, Instant, SystemTime};

use breakerbox_model::delivery::Signer;
use breakerbox_testkit::gateway::{Api, Gateway};
use breakerbox_testkit::receiver::{Behaviour, Receiver, RefusingPort};
use serde_json::{Value, json};

use crate::command::root;
use crate::docs::{blocks, markdown_files};

const GUIDES: [(&str, [&str; 2]); 3] = [
    ("api.md", ["send_event.py", "send_event.mjs"]),
    ("gateway.md", ["receive.py", "receive.mjs"]),
    ("decisions.md", ["call.py", "call.mjs"]),
];
/// The program that uses a generated client, which `generated_clients` runs.
pub(crate) const GENERATED_CLIENT: &str = "use_client.py";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// A generous timeout, so that a hanging test fails.
const LONG: Duration = Duration::from_secs(60);

/// The programs of the guides, as files in a directory of their own.
struct Programs {
    folder: tempfile::TempDir,
}

impl Programs {
    fn unpack() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (guide, names) in GUIDES {
            let guide = std::fs::read_to_string(root().join("docs/guide").join(guide)).unwrap();
            for program in programs(&guide) {
                let name = name(&program);
                if name == GENERATED_CLIENT {
                    continue;
                }
                assert!(names.contains(&name.as_str()), "{name}");
                std::fs::write(folder.path().join(&name), program).unwrap();
            }
        }
        Self { folder }
    }

    /// Returns the command that runs this program, with these environment variables.
    fn command(&self, name: &str, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(if name.ends_with(".py") { "python3" } else { "node" });
        command.arg(self.folder.path().join(name)).current_dir(&self.folder);
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("no_proxy", "*").envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a program to its end.
    fn run(&self, name: &str, variables: &[(&str, &str)]) -> Output {
        self.command(name, variables).output().unwrap_or_else(|error| panic!("can't run {name}: {error}"))
    }

    /// Runs a program that must succeed, and returns what it prints.
    #[track_caller]
    fn printed(&self, name: &str, variables: &[(&str, &str)]) -> String {
        let ran = self.run(name, variables);
        assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }
}

/// Returns all programs in a guide.
pub(crate) fn programs(guide: &str) -> Vec<String> {
    ["python", "js"].into_iter().flat_map(|language| blocks(guide, language)).collect()
}

/// Returns the file name in the comment at the top of a program.
pub(crate) fn name(program: &str) -> String {
    let first = program.lines().next().unwrap_or_default();
    first.trim_start_matches(['#', '/', ' ']).to_owned()
}

/// A program that receives webhooks. It is killed when dropped.
struct Running {
    child: Child,
    lines: Lines<String>,
    url: String,
}

impl Running {
    fn start(programs: &Programs, name: &str, secret: &str) -> Self {
        let mut command = programs.command(name, &[("SECRET", secret), ("PORT", "0")]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut running = Self { child, lines, url: String::new() };
        let first = running.line();
        running.url =
            first.strip_prefix("listening on ").unwrap_or_else(|| panic!("{name}: {first}")).to_owned();
        running
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(LONG).expect("the program prints a line")
    }

    /// Sends a request with these headers, and returns the status of the response.
    fn post(&self, headers: &[(&str, &str)], body: &str) -> u16 {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}");
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gateway() -> Gateway {
    Gateway::start(Path::new(env!("CARGO_BIN_EXE_breakerbox"))).unwrap()
}

/// Creates an API key that may only send, as the guides recommend.
fn sending_key(api: &Api) -> String {
    let new = json!({ "name": "programs", "scopes": ["send"], "tenant": "default" });
    api.post("/v1/keys", &new).unwrap()["key"].as_str().unwrap().to_owned()
}

#[test]
fn every_program_in_the_documentation_is_run() {
    let texts = markdown_files().into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    let found: BTreeSet<String> =
        texts.flat_map(|text| programs(&text)).map(|program| name(&program)).collect();
    let run = GUIDES.iter().flat_map(|(_, names)| *names).chain([GENERATED_CLIENT]);
    let run: BTreeSet<String> = run.map(String::from).collect();
    assert_eq!(found, run);
}

#[test]
fn what_one_program_sends_the_others_receive() {
    let programs = Programs::unpack();
    let gateway = gateway();
    let api = gateway.api().clone();
    let key = sending_key(&api);
    let url = format!("http://{}", gateway.address());
    let variables = [("URL", url.as_str()), ("KEY", key.as_str())];
    let receivers = ["receive.py", "receive.mjs"].map(|name| {
        // The receiver needs the secret of an endpoint, and the endpoint the address of the receiver.
        let new = json!({ "tenant": "default", "url": "http://127.0.0.1:9/", "types": ["invoice.*"] });
        let endpoint = api.post("/v1/endpoints", &new).unwrap();
        let receiver = Running::start(&programs, name, endpoint["secret"].as_str().unwrap());
        let path = format!("/v1/endpoints/{}", endpoint["id"].as_str().unwrap());
        api.patch(&path, &json!({ "url": receiver.url })).unwrap();
        receiver
    });

    for (name, payload) in [("send_event.py", r#"{"invoice": 7}"#), ("send_event.mjs", r#"{"invoice":8}"#)] {
        let printed = programs.printed(name, &variables);
        let (event, deliveries) = printed.split_once(' ').unwrap_or_else(|| panic!("{name}: {printed}"));
        assert_eq!(deliveries, "2", "{name}");
        for receiver in &receivers {
            let line = receiver.line();
            assert_eq!(line, format!("invoice.paid {event} {payload}"), "{name}");
        }
        until_delivered(&api, event);
        assert_eq!(programs.printed(name, &variables), printed, "{name}: a retry creates no second event");

        let refused = programs.run(name, &[("URL", &url), ("KEY", "bbx_wrong")]);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && message.contains("unauthenticated: "), "{name}: {message}");
    }
}

fn until_delivered(api: &Api, event: &str) {
    let began = Instant::now();
    loop {
        let found = api.get(&format!("/v1/deliveries?event={event}")).unwrap();
        let states = found["items"].as_array().unwrap().iter().map(|item| &item["state"]);
        if states.clone().count() == 2 && states.clone().all(|state| state == "delivered") {
            return;
        }
        assert!(began.elapsed() < LONG, "{found}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn receivers_accept_only_what_is_signed_and_fresh() {
    let programs = Programs::unpack();
    let signer = Signer::new(&[SECRET.parse().unwrap()]);
    let other = Signer::new(&["whsec_c2Vjb25kLXNlY3JldC1vZi1hLXJvdGF0aW9u".parse().unwrap()]);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let body = r#"{"invoice":7}"#;
    let sign = |signer: &Signer, id: &str, at: u64| {
        signer.sign(id, at, body.as_bytes()).to_str().unwrap().to_owned()
    };
    for name in ["receive.py", "receive.mjs"] {
        let receiver = Running::start(&programs, name, SECRET);
        let post = |id: &str, at: u64, signature: &str, body: &str| {
            let (at, kind) = (at.to_string(), ("webhook-event-type", "invoice.paid"));
            let signed =
                [("webhook-id", id), ("webhook-timestamp", &at), ("webhook-signature", signature), kind];
            receiver.post(&signed, body)
        };
        let good = sign(&signer, "evt_1", now);
        let bad = sign(&other, "evt_1", now);
        let refused = [
            ("another secret", post("evt_1", now, &bad, body)),
            ("another body", post("evt_1", now, &good, r#"{"invoice":8}"#)),
            ("another id", post("evt_2", now, &good, body)),
            ("another time", post("evt_1", now - 1, &good, body)),
            ("six minutes old", post("evt_1", now - 360, &sign(&signer, "evt_1", now - 360), body)),
            ("six minutes early", post("evt_1", now + 360, &sign(&signer, "evt_1", now + 360), body)),
            ("no signature", post("evt_1", now, "", body)),
            ("not ASCII", post("evt_1", now, "v1,\u{e9}\u{df}", body)),
            ("no headers", receiver.post(&[], body)),
            ("not a time", receiver.post(&[("webhook-id", "evt_1"), ("webhook-timestamp", "soon")], body)),
        ];
        for (case, status) in refused {
            assert_eq!(status, 401, "{name}: {case}");
        }
        assert_eq!(post("evt_1", now, &good, body), 204, "{name}");
        assert_eq!(post("evt_1", now, &format!("{bad} {good}"), body), 204, "{name}: a rotation");
        // Nothing that was refused is printed before.
        let expected = format!("invoice.paid evt_1 {body}");
        assert_eq!([receiver.line(), receiver.line()], [expected.clone(), expected], "{name}");
    }
}

#[test]
fn programs_that_make_their_own_calls_settle_and_are_refused() {
    let programs = Programs::unpack();
    let gateway = gateway();
    let api = gateway.api().clone();
    let policy = json!({ "failure_rate": "off", "consecutive_failures": 2, "cool_off": "60s", "jitter": 0 });
    api.patch("/v1/tenants/default", &json!({ "policy": policy })).unwrap();
    let key = sending_key(&api);
    let url = format!("http://{}", gateway.address());
    let (receiver, refusing) = (Receiver::start().unwrap(), RefusingPort::new().unwrap());
    for name in ["call.py", "call.mjs"] {
        let call = |destination: &str| {
            programs.printed(name, &[("URL", &url), ("KEY", &key), ("DESTINATION", destination)])
        };
        let result = |printed: String, settled: &str| -> Value {
            let result = printed.strip_suffix(settled).unwrap_or_else(|| panic!("{name}: {printed}"));
            serde_json::from_str(result).unwrap()
        };
        assert_eq!(result(call(&receiver.url("/up")), " counted"), json!({ "status": 200 }), "{name}");
        receiver.set(&format!("/{name}"), Behaviour::after(503, Duration::ZERO));
        let down = receiver.url(&format!("/{name}"));
        for _ in 0..2 {
            assert_eq!(result(call(&down), " counted"), json!({ "status": 503 }), "{name}");
        }
        let refused = call(&down);
        assert!(refused.starts_with("refused: open until 2"), "{name}: {refused}");
        let closed = call(&refusing.url(&format!("/{name}")));
        assert_eq!(result(closed, " counted"), json!({ "fault": "connect" }), "{name}");
    }
    assert_eq!(receiver.seen("/up").delivered, 2);
}
