//! `breakerbox listen` with real requests: valid, invalid and old signatures, and configured responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use breakerbox_model::delivery::Signer;
use breakerbox_model::objects::Secret;
use serde_json::Value;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY: &str = "{\"amount\": 12}";

/// A receiver process. It is killed when dropped.
struct Listening {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

/// The receiver's response.
#[derive(Debug)]
struct Answered {
    status: u16,
    head: String,
}

impl Listening {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_breakerbox"))
            .args(["listen", "--listen", "127.0.0.1:0", "--json"])
            .args(arguments)
            .env_remove("BREAKERBOX_WEBHOOK_SECRET")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut listening = Self { child, output, address: String::new() };
        let said = listening.next();
        let url = said["listening"].as_str().unwrap();
        listening.address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        listening
    }

    /// Returns the next line of output.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn post(&self, path: &str, headers: &str, body: &str) -> Answered {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        stream.read_to_string(&mut head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answered { status, head }
    }

    /// Returns whether the receiver exits by itself, successfully.
    fn ends(&mut self) -> bool {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "nothing more is printed");
        self.child.wait().unwrap().success()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Formats headers as the gateway sends them.
fn signed(secret: &str, id: &str, at: u64, body: &str) -> String {
    let mut headers = http::HeaderMap::new();
    Signer::new(&[secret.parse::<Secret>().unwrap()]).add_to(&mut headers, id, at, body.as_bytes());
    headers.iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap())).collect()
}

#[test]
fn signatures_are_verified_and_what_is_not_believed_is_refused() {
    let mut listening = Listening::start(&["--secret", SECRET, "--exit-after", "6"]);
    let other = Secret::new(vec![7; 24]).unwrap().reveal();
    let table = [
        (signed(SECRET, "evt_1", now(), BODY), BODY, 200, "valid", false),
        (signed(SECRET, "evt_1", now(), BODY), BODY, 200, "valid", true),
        (signed(&other, "evt_2", now(), BODY), BODY, 401, "invalid", false),
        (signed(SECRET, "evt_3", now(), BODY), "{}", 401, "invalid", false),
        (signed(SECRET, "evt_4", now() - 3_600, BODY), BODY, 401, "too_old", false),
        (String::new(), BODY, 401, "missing", false),
    ];
    for (headers, body, status, signature, again) in table {
        let answered = listening.post("/in?x=1", &headers, body);
        let line = listening.next();
        assert_eq!(answered.status, status, "{line}");
        assert_eq!(line["signature"], signature, "{line}");
        assert_eq!(line["repeated"], again, "{line}");
        assert_eq!(line["response_status"], status, "{line}");
        assert_eq!((&line["method"], &line["path"]), (&"POST".into(), &"/in?x=1".into()));
        assert_eq!(line["body"], body);
        assert_eq!(line["error"].is_string(), status == 401, "{line}");
    }
    assert!(listening.ends());
}

#[test]
fn the_event_type_is_shown() {
    let mut listening = Listening::start(&[]);
    listening.post("/", "webhook-event-type: invoice.paid\r\n", BODY);
    assert_eq!(listening.next()["type"], "invoice.paid");
    listening.post("/", "", BODY);
    assert_eq!(listening.next()["type"], Value::Null);
}

#[test]
fn either_secret_of_a_rotation_will_do() {
    let other = Secret::new(vec![7; 24]).unwrap().reveal();
    let mut listening = Listening::start(&["--secret", &other, "--secret", SECRET]);
    for secret in [SECRET, &other] {
        assert_eq!(listening.post("/", &signed(secret, "evt_1", now(), BODY), BODY).status, 200);
        assert_eq!(listening.next()["signature"], "valid");
    }
}

#[test]
fn it_fails_as_often_as_it_is_told() {
    let arguments = ["--fail", "2", "--fail-status", "503", "--retry-after", "7s", "--status", "204"];
    let mut listening = Listening::start(&[&arguments[..], &["--exit-after", "3"]].concat());
    for (status, asks_for_time) in [(503, true), (503, true), (204, false)] {
        let answered = listening.post("/", "", BODY);
        assert_eq!(answered.status, status);
        assert_eq!(answered.head.contains("retry-after: 7\r\n"), asks_for_time, "{}", answered.head);
        let line = listening.next();
        assert_eq!((&line["response_status"], &line["signature"]), (&status.into(), &"unchecked".into()));
    }
    assert!(listening.ends());
}

#[test]
fn it_fails_until_it_is_told_otherwise() {
    let listening = Listening::start(&["--failing"]);
    let statuses =
        |count: usize| (0..count).map(|_| listening.post("/", "", BODY).status).collect::<Vec<_>>();
    assert_eq!(statuses(3), [500, 500, 500]);
    assert_eq!(listening.post("/-/recover", "", "").status, 200);
    assert_eq!(statuses(2), [200, 200]);
    assert_eq!(listening.post("/-/fail", "", "").status, 200);
    assert_eq!(statuses(1), [500]);
}

#[test]
fn it_answers_late() {
    let listening = Listening::start(&["--delay", "300ms"]);
    let began = std::time::Instant::now();
    assert_eq!(listening.post("/", "", BODY).status, 200);
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn bytes_that_are_no_text_are_shown_whole() {
    let mut listening = Listening::start(&[]);
    let mut stream = TcpStream::connect(&listening.address).unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n\xff\x00")
        .unwrap();
    stream.read_to_end(&mut vec![]).unwrap();
    let line = listening.next();
    assert_eq!((&line["body_base64"], &line["body"]), (&"/wA=".into(), &Value::Null));
}

#[test]
fn what_it_can_not_do_is_said() {
    use crate::program::Program;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = Program::new(&["listen", "--listen", &address]).run();
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("use --listen for another address"), "{}", ended.stderr);
    let by_flag = Program::new(&["listen", "--secret", "hunter2"]);
    for program in [by_flag, Program::new(&["listen"]).env("BREAKERBOX_WEBHOOK_SECRET", "hunter2")] {
        let ended = program.run();
        assert_eq!(ended.code, 2);
        assert_eq!(ended.stderr, "breakerbox: --secret: must be `whsec_` and the base64 of 24 to 64 bytes\n");
    }
}
