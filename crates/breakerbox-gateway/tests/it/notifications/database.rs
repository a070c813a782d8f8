//! A gateway whose database accepts no writes is not ready, reports the reason, and notifies its operator without the
//! database.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::whole::Site;

impl Site {
    /// Makes a request without a key, and returns the status and the body.
    fn plain(&self, path: &str) -> (u16, Value) {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        answer(stream)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.gateway.as_ref().unwrap().address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn is_ready(&self) -> bool {
        self.plain("/readyz").0 == 200
    }
}

fn answer(mut stream: TcpStream) -> (u16, Value) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[test]
fn a_database_that_takes_no_writes_is_not_ready_and_the_operator_is_notified() {
    let site = Site::start(|_| {});
    assert!(site.is_ready());
    // Another process holds the lock that every write needs.
    let other = rusqlite::Connection::open(site.config.data.join("breakerbox.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    site.until("not ready", || !site.is_ready());
    let (status, body) = site.plain("/readyz");
    assert_eq!((status, &body["status"]), (503, &json!("unavailable")));
    let reason = body["degraded"][0].as_str().unwrap();
    assert!(reason.starts_with("database: accepts no writes since "), "{reason}");
    assert_eq!(site.plain("/healthz").0, 200, "no restart would help");
    site.until("the operator is notified", || site.told("/operator") == ["database_lost"]);
    other.execute_batch("ROLLBACK").unwrap();
    site.until("ready again", || site.is_ready());
    site.until("and notified", || site.told("/operator") == ["database_lost", "database_back"]);
}

#[test]
fn a_deleted_folder_is_not_ready_and_nothing_is_accepted_into_it() {
    let site = Site::start(|_| {});
    let event = json!({ "type": "a.b", "payload": {} });
    site.api().post("/v1/events", &event).unwrap();
    std::fs::remove_dir_all(&site.config.data).unwrap();
    let (status, body) = site.api().request(&http::Method::POST, "/v1/events", Some(&event)).unwrap();
    assert_eq!((status, &body["code"]), (503, &json!("unavailable")), "what is written now would be lost");
    site.until("not ready", || !site.is_ready());
    let (_, body) = site.plain("/readyz");
    assert!(body["degraded"][0].as_str().unwrap().contains("was deleted or replaced"), "{body}");
    site.until("the operator is notified", || site.told("/operator") == ["database_lost"]);
}

#[test]
fn a_gateway_that_stops_is_not_ready() {
    let mut site = Site::start(|config| config.grace = Duration::from_secs(20));
    // An incomplete request keeps its connection.
    let mut stream = site.connect();
    write!(stream, "GET /readyz HTTP/1.1\r\nhost: x\r\n").unwrap();
    assert!(site.is_ready(), "and its connection was accepted before");
    let gateway = site.gateway.take().unwrap();
    let address = gateway.address();
    let stopping = site.runtime.spawn(gateway.stop());
    let give_up_at = std::time::Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(address).is_ok() {
        assert!(std::time::Instant::now() < give_up_at, "it listens on");
        std::thread::sleep(Duration::from_millis(5));
    }
    write!(stream, "\r\n").unwrap();
    let (status, body) = answer(stream);
    assert_eq!((status, &body["degraded"][0]), (503, &json!("gateway: is stopping")));
    site.runtime.block_on(stopping).unwrap();
}
