//! What every durable queue must do, verb by verb. The cases know only [`Rig`]; another database runs them by having one.

mod accept;
mod claim;
mod crash;
mod database;
mod fan_out;
mod model;
mod races;
mod rig;
mod settle;
mod speed;
mod sqlite;
mod upkeep;

/// Runs these cases against SQLite.
macro_rules! cases {
    ($($case:ident)*) => {$(
        #[tokio::test]
        async fn $case() {
            cases::$case::<crate::queue::sqlite::SqliteRig>().await;
        }
    )*};
}
use cases;
