//! Signals to a gateway that is starting.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A generous timeout, so that a hanging test fails.
const LONG: Duration = Duration::from_secs(60);

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_signal_during_the_start_ends_it_with_code_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir().unwrap();
        // The start takes forever: the master key comes from a pipe to which nothing is written.
        let key = folder.path().join("master.key");
        assert!(Command::new("mkfifo").arg(&key).status().unwrap().success());
        let child = Command::new(env!("CARGO_BIN_EXE_breakerbox"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "info"])
            .args(["--master-key-file".as_ref(), key.as_os_str()])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Running(child);
        let mut log = BufReader::new(running.0.stderr.take().unwrap()).lines();
        let address = loop {
            let line = log.next().expect("it says where it listens").unwrap();
            if let Some((_, address)) = line.split_once("address=") {
                break address.trim().to_owned();
            }
        };
        assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200 "));
        assert!(get(&address, "/readyz").starts_with("HTTP/1.1 503 "));

        let pid = Pid::from_child(&running.0);
        kill_process(pid, signal).unwrap();
        let began = Instant::now();
        let status = loop {
            if let Some(status) = running.0.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < LONG, "it did not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(0), "{signal:?}: {status}");
    }
}
