//! Private servers: a real one for a test, on a port of its own, with a folder of its own, gone when the test is.
//!
//! | file | what it has |
//! | --- | --- |
//! | `process` | what all of them need: a program that is always stopped, a port, waiting with a limit |
//! | `family` | the processes that a server starts for itself |
//! | `postgres`, `postgres_files` | a Postgres server: killed, paused, restarted |
//! | `redis` | a Redis server: killed, paused, restarted, made a replica |
//! | `redis_cluster` | three of them, as a cluster |
//! | `redis_pair` | a master and its replica, and a failover that loses the last writes |
//! | `redis_sentinel` | what watches a master, and makes a replica the next one |
//!
//! Several test processes may run at once. No server of the machine is used or touched.

mod family;
mod postgres;
mod postgres_files;
mod process;
mod redis;
mod redis_cluster;
mod redis_pair;
mod redis_sentinel;

pub use self::postgres::{PostgresOptions, PostgresServer};
pub use self::process::{PATIENCE, Process, ServerError, free_port, wait_until};
pub use self::redis::{RedisOptions, RedisServer, Restart};
pub use self::redis_cluster::RedisCluster;
pub use self::redis_pair::RedisPair;
pub use self::redis_sentinel::RedisSentinel;
