//! Small programs that write, and report what they have synced. After a power failure, their directory shows
//! whether the report was true.
//!
//! One of them deliberately does not sync: if that program survives a power failure, the simulation is
//! worthless.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use rusqlite::Connection;

use super::{CUT_STATUS, Cut, Shim};

/// The size of a record in a file, deliberately not a multiple of the sector size.
const RECORD: usize = 1_300;

/// The number of records written between two syncs.
const BETWEEN: u64 = 4;

/// The way in which a witness program writes data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ValueEnum)]
pub enum Kind {
    /// Appends records to a file, and syncs after every fourth.
    Files,
    /// Writes a new file next to the old one and renames it, with all syncs that this requires.
    Renames,
    /// Inserts rows into SQLite, with the gateway's settings.
    Sqlite,
    /// Like `Sqlite`, but without syncing.
    CarelessSqlite,
}

/// The command-line options of a witness program.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// How the program writes data
    #[arg(long, value_enum)]
    kind: Kind,
    /// Directory to write to
    #[arg(long)]
    folder: PathBuf,
}

/// Writes until the power fails, and prints the last durable number after each sync.
///
/// # Errors
/// Returns an error if a write fails.
pub fn run(settings: &Settings) -> Result<()> {
    let folder = &settings.folder;
    match settings.kind {
        Kind::Files => append(folder),
        Kind::Renames => replace(folder),
        Kind::Sqlite => insert(folder, "FULL"),
        Kind::CarelessSqlite => insert(folder, "OFF"),
    }
}

fn say(number: u64) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{number}")?;
    Ok(out.flush()?)
}

fn record(number: u64) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(RECORD).collect()
}

fn append(folder: &Path) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
    File::open(folder)?.sync_all()?;
    for number in 1.. {
        file.write_all(&record(number))?;
        if number % BETWEEN == 0 {
            file.sync_data()?;
            say(number)?;
        }
    }
    Ok(())
}

fn replace(folder: &Path) -> Result<()> {
    for number in 1_u64.. {
        let mut file = File::create(folder.join("new"))?;
        file.write_all(&record(number))?;
        file.sync_all()?;
        fs::rename(folder.join("new"), folder.join("current"))?;
        File::open(folder)?.sync_all()?;
        say(number)?;
    }
    Ok(())
}

fn insert(folder: &Path, synchronous: &str) -> Result<()> {
    let database = Connection::open(folder.join("rows.db"))?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", synchronous)?;
    // Checkpoint often, so that power failures hit checkpoints and restarted logs.
    database.pragma_update(None, "wal_autocheckpoint", 20)?;
    database.execute_batch("CREATE TABLE rows (number INTEGER PRIMARY KEY, bytes BLOB)")?;
    for number in 1_u32.. {
        database.execute("INSERT INTO rows VALUES (?1, ?2)", (number, record(number.into())))?;
        say(number.into())?;
    }
    Ok(())
}

/// A witness program's reports, and the contents of its directory after the power failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The last number that the program reported as durable.
    pub said: u64,
    /// How many numbers, starting with the first, are present without a gap.
    pub kept: u64,
    /// A description of any other fault that was found, or `None` if there was none.
    pub wrong: Option<String>,
    /// Whether the directory also contains parts of unsynced writes.
    pub pieces: bool,
}

impl Found {
    /// Returns whether all data that was reported as durable is present.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.kept >= self.said && self.wrong.is_none()
    }
}

/// Runs a witness program in an empty directory until its power fails, and examines the directory.
///
/// # Errors
/// Returns an error if the program can't run.
pub fn observe(program: &Path, kind: Kind, folder: &Path, cut: Cut) -> Result<Found> {
    let mut command = Command::new(program);
    let name = kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    command.args(["witness", "--kind", &name, "--folder"]).arg(folder);
    command.envs(Shim::build()?.environment(folder, cut)).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("{} can't be run", program.display()))?;
    let heard = String::from_utf8_lossy(&output.stdout);
    if output.status.code() != Some(CUT_STATUS) {
        bail!("its power was not cut: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let said = heard.lines().last().map_or(Ok(0), str::parse)?;
    let mut found = match kind {
        Kind::Files => appended(folder)?,
        Kind::Renames => replaced(folder)?,
        Kind::Sqlite | Kind::CarelessSqlite => inserted(folder),
    };
    found.said = said;
    Ok(found)
}

fn appended(folder: &Path) -> Result<Found> {
    let bytes = fs::read(folder.join("log")).unwrap_or_default();
    let whole = |(number, chunk): &(u64, &[u8])| *chunk == record(*number);
    let kept = (1..).zip(bytes.chunks(RECORD)).take_while(whole).count();
    let kept = u64::try_from(kept)?;
    let pieces = bytes.len() > usize::try_from(kept)? * RECORD;
    Ok(Found { said: 0, kept, wrong: None, pieces })
}

fn replaced(folder: &Path) -> Result<Found> {
    let pieces = folder.join("new").exists();
    let Ok(bytes) = fs::read(folder.join("current")) else {
        return Ok(Found { said: 0, kept: 0, wrong: None, pieces });
    };
    ensure!(bytes.len() == RECORD, "the file has {} bytes", bytes.len());
    let kept = u64::from_le_bytes(bytes[..8].try_into()?);
    let wrong = (bytes != record(kept)).then(|| "the file is of two writes".to_owned());
    Ok(Found { said: 0, kept, wrong, pieces })
}

fn inserted(folder: &Path) -> Found {
    let looked = || -> rusqlite::Result<(u64, String)> {
        let database = Connection::open(folder.join("rows.db"))?;
        let verdict = database.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
        let is_there = "SELECT count(*) FROM sqlite_schema WHERE name = 'rows'";
        if database.query_row(is_there, (), |row| row.get::<_, u32>(0))? == 0 {
            return Ok((0, verdict));
        }
        let mut rows = database.prepare("SELECT number, bytes FROM rows ORDER BY number")?;
        let rows = rows.query_map((), |row| Ok((row.get::<_, u32>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        let whole = rows.iter().zip(1..).take_while(|((number, bytes), expected)| {
            number == expected && *bytes == record((*expected).into())
        });
        Ok((whole.count() as u64, verdict))
    };
    match looked() {
        Ok((kept, verdict)) => {
            let wrong = (verdict != "ok").then_some(verdict);
            Found { said: 0, kept, wrong, pieces: false }
        }
        Err(error) => Found { said: 0, kept: 0, wrong: Some(error.to_string()), pieces: false },
    }
}
