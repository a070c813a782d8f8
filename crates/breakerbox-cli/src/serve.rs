//! `breakerbox serve`: loads the settings and runs the gateway, which is implemented in `breakerbox-gateway`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use breakerbox_egress::host::descriptors;
use breakerbox_gateway::config::{self, Config, Loaded, Sources};
use breakerbox_gateway::gateway::{Gateway, HandedOver, Show, StartError};
use breakerbox_gateway::telemetry;
use breakerbox_model::objects::ApiKeyText;
use breakerbox_storage::clock::Clocks;
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use super::client::DEFAULT_URL;
use super::failure::{Failure, with_sources};
use super::flags::Flags;
use super::output::{Output, print};

/// The maximum time to wait until an interrupted startup ends.
const INTERRUPTED: Duration = Duration::from_secs(2);

/// Start the gateway: API, workers and scheduler in one process, with its database in one
/// directory.
///
/// Settings come from a TOML file (--config, or breakerbox.toml in the current directory), from
/// environment variables (BREAKERBOX_...), and from flags. A flag overrides a variable; a
/// variable overrides the file.
///
/// The first start prints an admin key once, if standard output is a terminal; otherwise use
/// --admin-key-file. SIGTERM shuts the gateway down gracefully: requests in flight have --grace
/// (default 30s) to finish.
///
/// To try the gateway with a receiver on this machine, which it does not call by default:
///
///   breakerbox serve --dev
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Read settings from this file
    #[arg(long, value_name = "FILE", env = "BREAKERBOX_CONFIG")]
    config: Option<PathBuf>,

    /// Print the effective settings with the origin of each value, and exit
    #[arg(long)]
    print_config: bool,

    /// Print a commented file with every setting and its default, and exit
    #[arg(long, conflicts_with = "print_config")]
    example_config: bool,

    /// Start even if the newest stored time is more than a day ahead of the clock. Check the machine's clock first
    #[arg(long)]
    accept_clock_step: bool,

    #[command(flatten)]
    flags: Flags,
}

pub(super) fn run(arguments: Arguments, output: Output, clocks: &Clocks) -> Result<(), Failure> {
    if arguments.example_config {
        return print(&config::example());
    }
    let (print_only, accept_clock_step) = (arguments.print_config, arguments.accept_clock_step);
    let file = arguments.config.filter(|name| !name.as_os_str().is_empty());
    let loaded = load(file, arguments.flags)?;
    if print_only {
        let text = if output.json { format!("{:#}\n", loaded.to_json()) } else { loaded.to_toml() };
        return print(&text);
    }
    let clocks = if accept_clock_step { clocks.clone().accepting_step() } else { clocks.clone() };
    start(&loaded, &clocks)
}

/// Returns the settings that a gateway started in the current directory without flags would have.
pub(super) fn settings() -> Result<Config, Failure> {
    let file = std::env::var_os("BREAKERBOX_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from);
    load(file, Flags::default()).map(|loaded| loaded.config)
}

fn load(file: Option<PathBuf>, flags: Flags) -> Result<Loaded, Failure> {
    // A value that is not UTF-8 can't be valid; the variable's name decides whether it is a setting.
    let variables = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    let sources = Sources::default().variables(variables);
    let sources = match file {
        Some(path) => sources.file(path),
        None => sources.file_if_in(Path::new("")),
    };
    flags.over(sources).load().map_err(|errors| Failure::Inputs(errors.lines()))
}

/// Runs the gateway until a stop signal.
fn start(loaded: &Loaded, clocks: &Clocks) -> Result<(), Failure> {
    let config = &loaded.config;
    telemetry::log::start(&config.log);
    for name in &loaded.unknown_variables {
        warn!("ignoring the environment variable {name}: it is not a setting");
    }
    if config.dev {
        warn!("trial mode (--dev): loopback addresses are allowed; do not use it in production");
    }
    descriptors::raise();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Environment(format!("can't start threads: {error}")))?;
    let ended = runtime.block_on(serve(config, clocks));
    // An interrupted start may still be waiting for a file. Uncommitted changes are rolled back at the next start.
    runtime.shutdown_timeout(INTERRUPTED);
    ended
}

async fn serve(config: &Config, clocks: &Clocks) -> Result<(), Failure> {
    // Installed first: a signal during startup must not kill the process.
    let mut signals = StopSignals::new()
        .map_err(|error| Failure::Environment(format!("can't install signal handlers: {error}")))?;
    let printed = config.secrets.print_admin_key.or(config.dev.then_some(true));
    let mut starting = std::pin::pin!(Gateway::start_showing(config, clocks, move |key| show(key, printed)));
    let started = tokio::select! {
        started = &mut starting => Some(started),
        () = signals.received() => None,
    };
    let Some(started) = started else {
        info!("stopped during the start; nothing was accepted");
        if let Ok(Ok(gateway)) = tokio::time::timeout(INTERRUPTED, starting).await {
            gateway.stop().await;
        }
        return Ok(());
    };
    let gateway = started.map_err(|error: StartError| Failure::Environment(with_sources(&error)))?;
    print(&welcome(&gateway, config))?;
    signals.received().await;
    info!("stopping; requests in flight have {:?} to finish", config.grace);
    if !gateway.stop().await {
        warn!("some requests did not finish in time; they are retried at the next start");
    }
    Ok(())
}

/// The stop signals: SIGTERM, or SIGINT from a terminal.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Prints the admin key of a first start. `printed` decides whether to print it; `None` means only to a terminal,
/// because other output may end up in a log.
fn show(key: &ApiKeyText, printed: Option<bool>) -> io::Result<Show> {
    let mut output = io::stdout().lock();
    if !printed.unwrap_or_else(|| output.is_terminal()) {
        return Ok(Show::NotSeen);
    }
    let key = key.reveal();
    writeln!(
        output,
        "First start with this data directory. This is the admin key; it is shown only once:\n\n    {key}\n"
    )?;
    output.flush()?;
    Ok(Show::Seen)
}

/// Returns the startup message: the address and, at the first start, the next steps.
fn welcome(gateway: &Gateway, config: &Config) -> String {
    let url = format!("http://{}", gateway.address());
    let data = config.data.display();
    let mut listens = format!("Breakerbox is listening on {url}; its data directory is {data}.\n");
    if config.dev {
        listens.push_str("Trial mode (--dev): the gateway may call receivers on this machine. Do not use it in production.\n");
    }
    let Some(first) = gateway.first_start() else {
        if gateway.has_keys() {
            return listens;
        }
        return format!(
            "{listens}
There is no API key yet: standard output is not a terminal, so none was generated. To create one, stop the gateway and use one of these:

    breakerbox keys create --data {data} --name admin --scope admin
    breakerbox serve --admin-key-file PATH       # the next start writes a key there, readable by its owner only
    breakerbox serve --print-admin-key           # the next start prints a key, even into a log
    BREAKERBOX_INITIAL_ADMIN_KEY=bbx_...         # your own key; or, from a file, --initial-admin-key-file PATH
"
        );
    };
    let key = match &first.handed_over {
        HandedOver::Shown => first.admin_key.reveal(),
        HandedOver::InFile(path) => {
            return format!(
                "{listens}\nFirst start with this data directory. The admin key is in {}.\n",
                path.display()
            );
        }
        HandedOver::Chosen => {
            return format!(
                "{listens}\nFirst start with this data directory. The initial admin key is active.\n"
            );
        }
    };
    if config.dev {
        return format!("{listens}{}", trial_steps(&url, &key));
    }
    format!(
        "{listens}
Create an endpoint, and send it an event:

    export BREAKERBOX_API_KEY={key}
    curl -s {url}/v1/endpoints -H \"authorization: Bearer $BREAKERBOX_API_KEY\" \\
      -H 'content-type: application/json' -d '{{\"url\": \"https://example.com/hook\"}}'
    curl -s {url}/v1/events -H \"authorization: Bearer $BREAKERBOX_API_KEY\" \\
      -H 'content-type: application/json' -d '{{\"type\": \"order.created\", \"payload\": {{\"id\": 1}}}}'

Create more keys with `breakerbox keys create`. API reference: {url}/docs
"
    )
}

/// Returns the next steps of a trial, for two other terminals. README's quick start explains them.
fn trial_steps(url: &str, key: &str) -> String {
    let program = program();
    // The commands know the default address.
    let address =
        if url == DEFAULT_URL { String::new() } else { format!("    export BREAKERBOX_URL={url}\n") };
    format!(
        "
In a second terminal, start a receiver that fails until you press Enter:

    {program} listen --failing --delay 300ms

In a third terminal, create an endpoint for the receiver, send events, and watch its circuit:

    export BREAKERBOX_API_KEY={key}
{address}    {program} endpoints create http://127.0.0.1:8081/
    for n in $(seq 30); do {program} send order.created \"{{\\\"id\\\": $n}}\" --quiet; done
    {program} circuits watch

API reference: {url}/docs
"
    )
}

/// Returns the program as it was started, if that was with a path, so that the printed commands can be pasted.
fn program() -> String {
    let name = std::env::args_os().next().map(PathBuf::from);
    let path = name.filter(|path| path.components().count() > 1);
    path.and_then(|path| path.to_str().map(String::from)).unwrap_or_else(|| "breakerbox".to_owned())
}
