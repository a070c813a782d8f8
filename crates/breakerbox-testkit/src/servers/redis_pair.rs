//! A private Redis server with a replica, and the failover that loses the last writes: the replica stops hearing from its
//! master some time before that ends.

use ::redis::RedisResult;

use super::process::ServerError;
use super::redis::RedisServer;

/// A master and its replica, both killed when this is dropped.
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
    /// Starts both, and waits until the replica follows.
    ///
    /// # Errors
    /// If `redis-server` is missing or does not start.
    pub fn start() -> Result<Self, ServerError> {
        let (master, replica) = (RedisServer::start()?, RedisServer::start()?);
        replica.replica_of(&master)?;
        Ok(Self { master, replica })
    }

    /// The master: after a failover, what was the replica.
    #[must_use]
    pub fn master(&self) -> &RedisServer {
        &self.master
    }

    /// What the master has written so far is on the replica; what it writes from now on is not, and will be lost.
    ///
    /// # Errors
    /// If one of them does not answer.
    pub fn part(&self) -> RedisResult<()> {
        self.follow()?;
        self.replica.promote()
    }

    /// Waits until the replica has heard everything that the master has said.
    fn follow(&self) -> RedisResult<()> {
        let said = self.master.info("replication", "master_repl_offset")?;
        let heard = super::process::wait_until(|| {
            let heard = self.replica.info("replication", "slave_repl_offset");
            let number =
                |offset: &Option<String>| offset.as_ref().and_then(|offset| offset.parse::<u64>().ok());
            match heard {
                Ok(heard) if number(&heard) >= number(&said) => Ok(()),
                other => Err(format!("it has heard {other:?} of {said:?}")),
            }
        });
        heard.map_err(|reason| ::redis::RedisError::from((::redis::ErrorKind::Io, "the replica", reason)))
    }

    /// The master ends as by a power cut.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kill_master(&mut self) -> Result<(), ServerError> {
        self.master.kill()
    }

    /// The master ends, unless it has, and the replica is the master from now on. Whatever the two have not [parted](Self::part)
    /// over is there.
    ///
    /// # Errors
    /// If the replica does not answer, or the system refuses.
    pub fn fail_over(&mut self) -> Result<(), ServerError> {
        self.master.kill()?;
        self.replica.promote().map_err(std::io::Error::other)?;
        std::mem::swap(&mut self.master, &mut self.replica);
        Ok(())
    }
}
