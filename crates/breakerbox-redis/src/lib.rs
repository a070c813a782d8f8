//! The Redis store for Breakerbox: a fleet shares its circuits through Redis 7 or Valkey.
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
//! [`RedisStore::open`] connects in the background, and never fails because Redis is down.
//! [`RedisStore::connect`] waits for the connection, and fails if none can be made.
//!
//! | URL | means |
//! | --- | --- |
//! | `redis://user:password@host:6379/0` | one server, and the number of a database on it |
//! | `redis+sentinel://user:password@host1:26379,host2:26379/0?master=mymaster` | the master that these sentinels name |
//! | `redis+cluster://user:password@host1:6379,host2:6379` | the cluster that these nodes belong to |
//!
//! `rediss` instead of `redis` means TLS, and `valkey` is a synonym for `redis`. Percent-encode passwords (`@`
//! is `%40`). TLS trusts the system's certificates, and uses the cryptography provider that the program
//! installed for `rustls`, or `ring` if it installed none. For sentinels with a password of their own, add
//! `&sentinel_user=` and `&sentinel_password=`.
//!
//! **Implementation.** Each [`Store`](breakerbox::store::Store) operation is one Lua script, which counts,
//! compares and swaps, and never decides. Redis's clock is used for all times. A batch of merges is one
//! pipelined round trip to each node. Changes are published with pub/sub.
//!
//! **Guarantees.** Every request ends within its timeout. A request whose response was lost is not retried, so
//! counts may be lost but are never doubled. A lost connection is reestablished automatically, and listeners
//! then receive [`StoreEvent::Missed`](breakerbox::store::StoreEvent::Missed). **Not guaranteed:** a Redis
//! failover may lose the latest writes, because Redis replicates asynchronously. In a cluster, the masters'
//! clocks must not differ by more than a small fraction of the timeout.
//!
//! For costs, monitoring, and the effects of a `FLUSHALL`, see `docs/operating/redis.md` in the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod calling;
mod checking;
mod cluster;
mod connection;
mod encoding;
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
mod servers;
mod store;
mod swapping;
mod target;
mod wire;

pub use builder::{DEFAULT_NAMESPACE, DEFAULT_TIME_LIMIT, RedisStoreBuilder};
pub use error::ConnectError;
pub use store::RedisStore;

/// Compiles and runs the examples in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
