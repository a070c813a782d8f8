//! `breakerbox backup` copies the database of a running gateway; `breakerbox restore` restores a copy while the gateway
//! is stopped.
//!
//! Both work on the data directory and need no API key: a user who can read the directory has the database anyway. The
//! master key is not copied, because a backup that contains its key would make encryption pointless.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use breakerbox_gateway::config::Config;
use breakerbox_storage_sqlite::{self as sqlite, CopyError, CopyProgress, DatabaseCopy};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::failure::{Failure, with_sources};
use super::output::Output;
use super::serve;

/// Back up a gateway's database to a file, even while the gateway is running.
///
/// The backup contains everything that was committed when it began. It is verified before it is moved to FILE, so FILE
/// is always complete. It does not contain the master key: keep a copy of the key elsewhere.
#[derive(Args)]
pub(super) struct Backup {
    /// File to write
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    shared: Shared,
}

/// Restore a backup into the data directory of a stopped gateway.
///
/// The backup is verified first. Events accepted after the backup are missing, and deliveries made after the backup are
/// made again. Put the backup's master key in place before you start the gateway.
#[derive(Args)]
#[command(mut_arg("overwrite", |overwrite| overwrite.help("Overwrite the database if it exists")))]
pub(super) struct Restore {
    /// Backup file to restore
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    shared: Shared,
}

#[derive(Args)]
struct Shared {
    /// The gateway's data directory
    #[arg(long, value_name = "DIRECTORY", env = "BREAKERBOX_DATA", default_value = "breakerbox-data")]
    data: PathBuf,

    /// Overwrite FILE if it exists
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn backup(arguments: &Backup, output: Output) -> Result<(), Failure> {
    let Shared { data, overwrite } = &arguments.shared;
    let key = master_key(data)?;
    let watched = Watched::new(output);
    let copied = sqlite::backup(data, &arguments.file, *overwrite, &|progress| watched.show(progress));
    let copy = copied.map_err(failed)?;
    show(&copy, &watched, &key, output)?;
    output.hint(&match &key {
        MasterKey::File(path) => format!(
            "The master key is not in the backup. Keep a copy of {} elsewhere: without it the signing secrets can't be read.",
            path.display()
        ),
        MasterKey::Variable => {
            "The master key is not in the backup. Keep the value of BREAKERBOX_MASTER_KEY elsewhere: without it the signing secrets can't be read.".to_owned()
        }
    });
    Ok(())
}

pub(super) fn restore(arguments: &Restore, output: Output) -> Result<(), Failure> {
    let Shared { data, overwrite } = &arguments.shared;
    let key = master_key(data)?;
    let watched = Watched::new(output);
    let copied = sqlite::restore(&arguments.file, data, *overwrite, &|progress| watched.show(progress));
    let copy = copied.map_err(failed)?;
    show(&copy, &watched, &key, output)?;
    if let MasterKey::File(path) = &key
        && !path.exists()
    {
        output.hint(&format!(
            "The master key is missing: put the master key of the backup into {} before you start the gateway.",
            path.display()
        ));
    }
    Ok(())
}

fn show(copy: &DatabaseCopy, watched: &Watched, key: &MasterKey, output: Output) -> Result<(), Failure> {
    watched.bar.finish_and_clear();
    let key = match key {
        MasterKey::File(path) => path.display().to_string(),
        MasterKey::Variable => "BREAKERBOX_MASTER_KEY".to_owned(),
    };
    let item = json!({
        "file": copy.path.display().to_string(),
        "bytes": copy.bytes,
        "schema": copy.schema,
        "tenants": copy.tenants,
        "endpoints": copy.endpoints,
        "unfinished_deliveries": copy.unfinished,
        "took_ms": u64::try_from(watched.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "master_key": key,
    });
    output.name(&item, "/file")
}

/// The location of the master key, which decrypts the database's sealed values.
enum MasterKey {
    File(PathBuf),
    Variable,
}

/// Returns where a gateway started in the current directory without flags looks for the master key.
fn master_key(data: &Path) -> Result<MasterKey, Failure> {
    let config = Config { data: data.into(), ..serve::settings()? };
    Ok(match config.secrets.master_key {
        Some(_) => MasterKey::Variable,
        None => MasterKey::File(config.master_key_file()),
    })
}

fn failed(error: CopyError) -> Failure {
    let text = with_sources(&error);
    match error {
        CopyError::Missing(_) | CopyError::Exists(_) | CopyError::Same(_) => Failure::Input(text),
        _ => Failure::Environment(text),
    }
}

/// A progress bar on standard error, shown only on a terminal.
struct Watched {
    bar: ProgressBar,
    began: Instant,
}

impl Watched {
    fn new(output: Output) -> Self {
        let bar = if output.json || output.quiet || !io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10))
        };
        Self { bar, began: Instant::now() }
    }

    fn show(&self, progress: CopyProgress) {
        match progress {
            CopyProgress::Copying { done, total } => {
                let style = "copying {bar:30} {binary_bytes}/{binary_total_bytes} in {elapsed}";
                self.bar.set_style(ProgressStyle::with_template(style).expect("the template is well-formed"));
                self.bar.set_length(total);
                self.bar.set_position(done);
            }
            CopyProgress::Checking => {
                let style = "{spinner} checking, {elapsed}";
                self.bar.set_style(ProgressStyle::with_template(style).expect("the template is well-formed"));
                self.bar.enable_steady_tick(Duration::from_millis(100));
            }
        }
    }
}
