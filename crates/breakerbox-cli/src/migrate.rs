//! `breakerbox migrate`: shows and migrates the schema of a gateway's database. A gateway migrates its database when it
//! starts; this command is for operators who want to check or migrate it beforehand.

use std::path::PathBuf;

use breakerbox_storage_sqlite::{Database, OpenError, Schema};
use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::{Failure, with_sources};
use super::output::Output;

/// Show or migrate the schema of a gateway's database.
///
/// The gateway migrates its database when it starts. A migration can't be undone: keep a backup.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,

    /// The gateway's data directory
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "BREAKERBOX_DATA",
        default_value = "breakerbox-data",
        global = true
    )]
    data: PathBuf,
}

#[derive(Subcommand)]
enum Action {
    /// Show the schema version and the number of pending migrations
    Status,
    /// Apply pending migrations; the gateway must be stopped
    Run,
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let data = &arguments.data;
    if !data.exists() {
        let message = format!("--data {}: does not exist; `breakerbox serve` creates it", data.display());
        return Err(Failure::Input(message));
    }
    let failed = |error: OpenError| Failure::Environment(with_sources(&error));
    let (schema, applied) = match arguments.action {
        Action::Status => (Database::schema(data).map_err(failed)?, 0),
        Action::Run => {
            let before: Schema = Database::migrate(data).map_err(failed)?;
            (Schema { current: before.newest, ..before }, before.pending())
        }
    };
    output.show(&json!({
        "current": schema.current,
        "newest": schema.newest,
        "pending": schema.pending(),
        "applied": applied,
    }))
}
