//! A private Redis server with a replica, and a failover that loses the last writes, because the replica is
//! disconnected from its master some time before the master fails.

use ::redis::RedisResult;

use super::process::ServerError;
use super::redis::RedisServer;

/// A master and its replica. Both are killed when the value is dropped.
///
/// ```
/// use breakerbox_testkit::servers::RedisPair;
///
/// let mut pair = RedisPair::start()?;
/// pair.master().query::<()>(&["SET", "early", "1"])?;
/// pair.part()?;
/// pair.master().query::<()>(&["SET", "late", "1"])?;
/// pair.fail_over()?;
/// assert!(pair.master().query::<bool>(&["EXISTS", "early"])?);
/// assert!(!pair.master().query::<bool>(&["EXISTS", "late"])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RedisPair {
    master: RedisServer,
    replica: RedisServer,
}

impl RedisPair {
    /// Starts both servers, and waits until the replica follows the master.
    ///
    /// # Errors
    /// Returns an error if `redis-server` is missing or does not start.
    pub fn start() -> Result<Self, ServerError> {
        let (master, replica) = (RedisServer::start()?, RedisServer::start()?);
        replica.replica_of(&master)?;
        Ok(Self { master, replica })
    }

    /// Returns the current master, which after a failover is the former replica.
    #[must_use]
    pub fn master(&self) -> &RedisServer {
        &self.master
    }

    /// Disconnects the replica from the master. The replica has everything written so far. Later writes are
    /// lost in a failover.
    ///
    /// # Errors
    /// Returns an error if one of the servers does not respond.
    pub fn part(&self) -> RedisResult<()> {
        self.follow()?;
        self.replica.promote()
    }

    /// Waits until the replica has received all of the master's writes.
    fn follow(&self) -> RedisResult<()> {
        let sent = self.master.info("replication", "master_repl_offset")?;
        let received = super::process::wait_until(|| {
            let received = self.replica.info("replication", "slave_repl_offset");
            let number =
                |offset: &Option<String>| offset.as_ref().and_then(|offset| offset.parse::<u64>().ok());
            match received {
                Ok(received) if number(&received) >= number(&sent) => Ok(()),
                other => Err(format!("it has heard {other:?} of {sent:?}")),
            }
        });
        received.map_err(|reason| ::redis::RedisError::from((::redis::ErrorKind::Io, "the replica", reason)))
    }

    /// Kills the master, like a power failure.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn kill_master(&mut self) -> Result<(), ServerError> {
        self.master.kill()
    }

    /// Kills the master if it is still running, and promotes the replica. Writes since the two were
    /// [disconnected](Self::part) are lost.
    ///
    /// # Errors
    /// Returns an error if the replica does not respond, or the master can't be killed.
    pub fn fail_over(&mut self) -> Result<(), ServerError> {
        self.master.kill()?;
        self.replica.promote().map_err(std::io::Error::other)?;
        std::mem::swap(&mut self.master, &mut self.replica);
        Ok(())
    }
}
