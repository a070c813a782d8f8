//! Private servers for tests: real servers, each with its own port and directory. A server stops when its value
//! is dropped.
//!
//! | file | contents |
//! | --- | --- |
//! | `process` | shared parts: a child process that is always stopped, a free port, waiting with a timeout |
//! | `process_tree` | the child processes of a server |
//! | `postgres`, `postgres_files` | a Postgres server, which tests can kill, pause and restart |
//! | `redis` | a Redis server, which tests can kill, pause, restart, and make a replica |
//! | `redis_cluster` | three Redis servers as a cluster |
//! | `redis_pair` | a master and its replica, and a failover that loses the last writes |
//! | `redis_sentinel` | a sentinel, which monitors a master and promotes a replica when the master fails |
//!
//! Several test processes may run at once. Other servers on the machine are not used or affected.

mod postgres;
mod postgres_files;
mod process;
mod process_tree;
mod redis;
mod redis_cluster;
mod redis_pair;
mod redis_sentinel;

pub use self::postgres::{PostgresOptions, PostgresServer};
pub use self::process::{Process, READY_TIMEOUT, ServerError, free_port, wait_until};
pub use self::redis::{RedisOptions, RedisServer, Restart};
pub use self::redis_cluster::RedisCluster;
pub use self::redis_pair::RedisPair;
pub use self::redis_sentinel::RedisSentinel;
