//! `breakerbox migrate`: the schema of a gateway's database. A gateway migrates when it starts; this command is for
//! operators who want to inspect or migrate it beforehand.

use std::path::PathBuf;

use breakerbox_storage_sqlite::{Database, OpenError, Schema};
use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::{Failure, with_sources};
use super::output::Output;

/// Look at the schema of a gateway's database, or bring it up to date.
///
/// The gateway does this by itself when it starts. There is no way back to an older schema: keep a backup.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,

    /// The gateway's data folder
    #[arg(
        long,
        value_name = "FOLDER",
        env = "BREAKERBOX_DATA",
        default_value = "breakerbox-data",
        global = true
    )]
    data: PathBuf,
}

#[derive(Subcommand)]
enum Action {
    /// Say which schema it has, and what is pending
    Status,
    /// Apply what is pending; the gateway must be stopped
    Run,
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let data = &arguments.data;
    if !data.exists() {
        let message = format!("--data {}: is not there; `breakerbox serve` makes it", data.display());
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
