//! `breakerbox replay`: tests a policy on past traffic.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use breakerbox_core::{Policy, PolicyBuilder, Preset};
use breakerbox_replay::engine::{Engine, EngineError, Finished, Limits};
use breakerbox_replay::input::{Format, Line, ReadError, Reader};
use breakerbox_replay::{Report, page};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::policy::GivenPolicy;
use super::report_file::ReportFile;
use super::result_table::GatewayTable;
use super::{Failure, output_failed, say};

/// Run past traffic through the engine, and print the transitions that it would have caused.
///
/// Nothing is sent anywhere. Each transition is one JSON line on standard output; a summary
/// follows on standard error.
///
/// With --quiet, there is no summary. --json affects only errors, because transitions are always
/// JSON.
///
/// Each line of traffic is either a call:
///
///   {"at_ms":0,"key":"e1","outcome":"failure","latency_ms":12,"retry_after_ms":500}
///   {"at":"2026-01-31T12:00:00Z","key":"e1","status":503,"latency_ms":12,"retry_after_ms":500}
///   {"at":"2026-01-31T12:00:01Z","key":"e1","fault":"timeout","latency_ms":10000}
///
/// or a sample with the totals for each key:
///
///   {"at_ms":0,"samples":{"e1":{"successes":9,"failures":3,"latency_sum_ms":840}}}
///
/// The time is either at_ms, in milliseconds since any origin, or at, in RFC 3339; one file uses
/// one of them. The result is an outcome (success, failure or ignored), an HTTP status, or the
/// fault of a call without a response (timeout, dns, address_denied, connect, tls, reset or
/// protocol); statuses and faults count as they do in the gateway. latency_ms and retry_after_ms
/// are optional. Lines must be ordered by time, and one file contains either calls or samples.
/// CSV with the same columns works too (for samples:
/// at_ms,key,successes,failures,latency_sum_ms).
///
/// Exit codes: 0, success; 1, a file can't be read or written; 2, the traffic, the policy or an
/// argument is invalid.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// File with the traffic; "-" is standard input
    #[arg(default_value = "-", value_name = "TRAFFIC")]
    traffic: PathBuf,

    /// Policy file: TOML, or JSON if its name ends in .json. Default: the built-in default policy
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Preset to start from, with the values of an existing breaker: convoy, reminders, redis_lua or stoplight
    #[arg(long, value_name = "NAME")]
    preset: Option<Preset>,

    /// Format of the traffic. Default: detected from the file name, or from the first character
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,

    /// Also print the decision for each call (not for samples)
    #[arg(long)]
    decisions: bool,

    /// Write the summary to this file as JSON, instead of to standard error as a table; "-" is standard output
    #[arg(long, value_name = "FILE")]
    summary_json: Option<PathBuf>,

    /// Write an HTML page with a timeline for each key to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Maximum number of keys in the traffic; each takes about 1 KB of memory, or up to 12 KB with --html
    #[arg(long, value_name = "N", default_value_t = Limits::default().keys)]
    max_keys: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    Jsonl,
    Csv,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Jsonl => Self::JsonLines,
            FormatName::Csv => Self::Csv,
        }
    }
}

pub(super) fn run(arguments: &Arguments, quiet: bool) -> Result<(), Failure> {
    let given = given_policy(arguments)?;
    // A policy that is invalid for calls is invalid for any traffic, so it is reported before reading.
    given.builder().build().map_err(|error| given.refused(&error))?;
    let summary_file = arguments.summary_json.as_deref().map(ReportFile::at).transpose()?;
    let page_file = arguments.html.as_deref().map(ReportFile::at).transpose()?;
    keep_files_apart(arguments, summary_file.as_ref(), page_file.as_ref())?;
    let source = Source::open(&arguments.traffic)?;
    let name = source.name.clone();

    let progress = source.progress.clone();
    let replayed = replay(source, arguments, &given);
    progress.finish_and_clear();
    let (mut finished, policy) = replayed?;

    let summary = match summary_file {
        Some(file) => file.write(|output| finished.write_json(output)),
        None if quiet => Ok(()),
        None => {
            say(&format!("\n{}", finished.to_text().trim_end()));
            Ok(())
        }
    };
    // If one report can't be written, the other is still written.
    let page = page_file
        .map_or(Ok(()), |file| file.write(|output| page::write(&mut finished, &policy, &name, output)));
    summary.and(page)
}

/// Checks that a report overwrites neither the traffic nor the other report.
fn keep_files_apart(
    arguments: &Arguments,
    summary: Option<&ReportFile>,
    page: Option<&ReportFile>,
) -> Result<(), Failure> {
    for (flag, file) in [("--summary-json", summary), ("--html", page)] {
        if file.is_some_and(|file| file.is_same_as(&arguments.traffic)) {
            return Err(Failure::Input(format!("{flag}: would overwrite the traffic; use another file")));
        }
    }
    if let (Some(summary), Some(path)) = (summary, &arguments.html)
        && summary.is_same_as(path)
    {
        return Err(Failure::Input("--html: is the same file as --summary-json; use another".into()));
    }
    Ok(())
}

fn given_policy(arguments: &Arguments) -> Result<GivenPolicy, Failure> {
    match (&arguments.policy, arguments.preset) {
        (Some(path), preset) => GivenPolicy::from_file(path)?.with_preset(preset),
        (None, Some(preset)) => Ok(GivenPolicy::without_file(Policy::builder().preset(preset))),
        (None, None) => Ok(GivenPolicy::without_file(PolicyBuilder::default())),
    }
}

/// Replays all of the traffic. Returns the results, and the policy used.
fn replay(source: Source, arguments: &Arguments, given: &GivenPolicy) -> Result<(Finished, Policy), Failure> {
    let refused = |error: ReadError| match error {
        ReadError::Input(error) => Failure::Input(format!("{}: {error}", source.name)),
        other => Failure::Environment(format!("{}: {other}", source.name)),
    };
    let format = arguments.format.map(Format::from).or(source.format);
    let limits = Limits { keys: arguments.max_keys, ..Limits::default() };
    // A reader that closes the output early, as `head` does, has seen enough, but reports may still be wanted.
    let wanted = arguments.summary_json.is_some() || arguments.html.is_some();
    let report = Report::new(standard_output(), arguments.decisions).outlives_output(wanted);
    let input = BufReader::with_capacity(1 << 20, source.input);
    let mut reader = Reader::new(input, format, &GatewayTable).map_err(refused)?;

    // The first line decides whether the traffic is calls or samples, and so which trip rules apply.
    let mut line = reader.next_line().map_err(refused)?;
    let built = match line {
        Some(Line::Tick(_)) => given.builder().build_for_sampling(),
        Some(Line::Call(_)) | None => given.builder().build(),
    };
    let policy = built.map_err(|error| given.refused(&error))?;
    let mut engine = Engine::new(policy.clone(), limits, report, arguments.html.is_some());
    while let Some(current) = line {
        let replayed = match &current {
            Line::Call(call) => engine.call(call),
            Line::Tick(tick) => engine.tick(tick),
        };
        drop(current);
        replayed.map_err(|error| stopped(&error, &source.name, reader.line_number()))?;
        line = match reader.next_line() {
            Ok(line) => line,
            Err(error) => {
                engine.flush().map_err(|error| output_failed(&error))?;
                return Err(refused(error));
            }
        };
    }
    let finished = engine.finish().map_err(|error| stopped(&error, &source.name, reader.line_number()))?;
    Ok((finished, policy))
}

/// Returns standard output: line-buffered for a terminal, otherwise with a larger buffer.
fn standard_output() -> Box<dyn Write> {
    let output = io::stdout();
    if output.is_terminal() { Box::new(output) } else { Box::new(BufWriter::with_capacity(1 << 16, output)) }
}

fn stopped(error: &EngineError, source: &str, line: u64) -> Failure {
    match error {
        EngineError::Report(error) => output_failed(error),
        other => Failure::Input(format!("{source}: line {line}: {other}")),
    }
}

/// The source of the traffic: a file or standard input.
struct Source {
    name: String,
    input: Box<dyn Read>,
    /// The format, according to the file name.
    format: Option<Format>,
    progress: ProgressBar,
}

impl Source {
    fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            if io::stdin().is_terminal() {
                say("breakerbox: reading traffic from standard input; end it with Ctrl-D");
            }
            let progress = progress(None);
            let input = Box::new(progress.wrap_read(io::stdin()));
            return Ok(Self { name: "standard input".into(), input, format: None, progress });
        }
        let name = path.display().to_string();
        let unreadable =
            |error: io::Error| Failure::Environment(format!("can't read the traffic {name}: {error}"));
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.is_dir() {
            return Err(unreadable(io::Error::from(ErrorKind::IsADirectory)));
        }
        let progress = progress(metadata.is_file().then_some(metadata.len()));
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Some(Format::Csv),
            Some("jsonl" | "ndjson" | "json") => Some(Format::JsonLines),
            _ => None,
        };
        Ok(Self { name, input: Box::new(progress.wrap_read(file)), format, progress })
    }
}

/// Returns a progress bar on standard error, if that is a terminal and the transitions are not printed there.
fn progress(length: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() || io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = bar(length);
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(4));
    bar
}

fn bar(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (
            ProgressBar::new(length),
            "{bar:30} {bytes} of {total_bytes} ({binary_bytes_per_sec}), {eta} left",
        ),
        None => (ProgressBar::no_length(), "{spinner} {bytes} ({binary_bytes_per_sec}) in {elapsed}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("a constant that a test draws"))
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    #[test]
    fn bars_show_how_far_the_work_is() {
        for (length, expected) in [(Some(1 << 30), "512.00 MiB of 1.00 GiB"), (None, "512.00 MiB (")] {
            let terminal = InMemoryTerm::new(5, 120);
            let bar = bar(length);
            bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
            bar.set_position(1 << 29);
            bar.tick();
            assert!(terminal.contents().contains(expected), "{}", terminal.contents());
        }
    }
}
