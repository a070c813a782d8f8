//! The Redis store of Breakerbox: circuits that a whole fleet shares, through Redis 7 or Valkey.
//!
//! ```
//! use breakerbox::Breakerbox;
//! use breakerbox_redis::RedisStore;
//!
//! # let server = breakerbox_testkit::servers::RedisServer::start()?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let url = "redis://127.0.0.1/";
//! # let url = &server.url();
//! let store = RedisStore::open(url)?; // Starts degraded if Redis is down, and joins when it is there.
//! let breakers = Breakerbox::builder().store(store).build();
//! let circuit = breakers.circuit("acme https://hooks.acme.example/in")?;
//! assert_eq!(circuit.call(async { Ok::<_, std::io::Error>("sent") }).await?, "sent");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`RedisStore::open`] connects in the background and never fails because Redis is down; [`RedisStore::connect`] waits for the
//! connection, and fails if there is none.
//!
//! | URL | means |
//! | --- | --- |
//! | `redis://user:password@host:6379/0` | one server, and a database of it |
//! | `redis+sentinel://user:password@host1:26379,host2:26379/0?master=mymaster` | the master that these sentinels name |
//! | `redis+cluster://user:password@host1:6379,host2:6379` | the cluster that these nodes belong to |
//!
//! `rediss` in place of `redis` means TLS, and `valkey` is another word for `redis`. Passwords are written as URLs need it
//! (`@` is `%40`). TLS trusts what the system trusts, and uses the cryptography that the program installed for `rustls`, or `ring`
//! if there is none. Sentinels that ask for a password of their own get `&sentinel_user=` and `&sentinel_password=`.
//!
//! **What it does.** Each verb of [`Store`](breakerbox::store::Store) is one Lua script, which counts, compares and swaps, and never decides. The time is
//! Redis's. A batch of merges is one pipelined round trip to each node. Changes come by pub/sub.
//!
//! **What is guaranteed.** Every request ends within its limit. A request whose answer was lost is not made again: counts may
//! be lost and are never doubled. A connection that is lost is made anew, by itself, and listeners then hear
//! [`Heard::Missed`](breakerbox::store::Heard::Missed). **What is not:** a failover of Redis may lose the latest writes, because Redis copies them to its
//! replicas later. In a cluster, the clocks of the masters must agree to well within the time limit.
//!
//! What it costs, what to watch, and what a `FLUSHALL` loses: `docs/operating/redis.md`.

mod builder;
mod calling;
mod checking;
mod cluster;
mod connection;
mod error;
mod layout;
mod leading;
mod link;
mod listening;
mod listing;
mod merging;
mod plan;
mod ramping;
mod reading;
mod script;
mod store;
mod swapping;
mod target;
mod wire;
mod words;

pub use builder::{Builder, DEFAULT_NAMESPACE, DEFAULT_TIME_LIMIT};
pub use error::ConnectError;
pub use store::RedisStore;

/// The guide's examples, compiled and run.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/guide/fleet.md")]
    struct Fleet;
}
