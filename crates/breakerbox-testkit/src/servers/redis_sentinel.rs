//! A private Redis Sentinel: it monitors a master, and promotes a replica when the master fails.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::process::{Process, ServerError, free_port};
use super::redis::{RedisServer, program, query};

/// The maximum number of attempts to start the sentinel if another process takes its port.
const STARTS: usize = 10;

/// A sentinel process. It is killed when the value is dropped.
#[derive(Debug)]
pub struct RedisSentinel {
    port: u16,
    _folder: TempDir,
    _process: Process,
}

impl RedisSentinel {
    /// Starts a sentinel that monitors a master under this name. After half a second without a response from
    /// the master, the sentinel decides on its own (quorum 1) that the master is down.
    ///
    /// # Errors
    /// Returns an error if `redis-server` is missing or does not start.
    pub fn watch(name: &str, master: &RedisServer) -> Result<Self, ServerError> {
        let folder = TempDir::with_prefix("breakerbox-sentinel-")?;
        let file = folder.path().join("sentinel.conf");
        let mut last = None;
        for _ in 0..STARTS {
            let port = free_port()?;
            let lines = [
                format!("port {port}\nbind 127.0.0.1\nprotected-mode no"),
                format!("sentinel monitor {name} 127.0.0.1 {} 1", master.port()),
                format!(
                    "sentinel down-after-milliseconds {name} 500\nsentinel failover-timeout {name} 5000\n"
                ),
            ];
            // The sentinel writes its own state to the same file.
            fs::write(&file, lines.join("\n"))?;
            let mut command = Command::new(program());
            command.current_dir(folder.path()).arg(&file).arg("--sentinel");
            let mut process = Process::start(&mut command, "redis-server", &folder.path().join("log"))?;
            let url = format!("redis://127.0.0.1:{port}/");
            let found = process.wait_until_ready(|_| {
                let address = query::<(String, u16)>(&url, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]);
                address.map(drop).map_err(|error| error.to_string())
            });
            match found {
                Ok(()) => return Ok(Self { port, _folder: folder, _process: process }),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| std::io::Error::other("no start was tried").into()))
    }

    /// Returns the port that the sentinel listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port of the current master, according to the sentinel.
    ///
    /// # Errors
    /// Returns an error if the sentinel does not respond.
    pub fn master_port(&self, name: &str) -> ::redis::RedisResult<u16> {
        let url = format!("redis://127.0.0.1:{}/", self.port);
        query::<(String, u16)>(&url, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]).map(|(_, port)| port)
    }

    /// Returns the number of a master's replicas that the sentinel knows.
    ///
    /// # Errors
    /// Returns an error if the sentinel does not respond.
    pub fn replicas(&self, name: &str) -> ::redis::RedisResult<usize> {
        let url = format!("redis://127.0.0.1:{}/", self.port);
        query::<Vec<::redis::Value>>(&url, &["SENTINEL", "REPLICAS", name]).map(|replicas| replicas.len())
    }
}
