//! The log. It is written to standard error, so that standard output is free for the output of commands.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

/// The level and format of the log.
#[derive(Clone, PartialEq, Debug)]
pub struct Log {
    /// The minimum level to log, optionally per module, such as `info,breakerbox_gateway=debug`.
    pub level: String,
    /// The format of log lines.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::default() }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// Human-readable text, in colour on a terminal.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// All log formats.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// Returns the format's name in the settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Starts logging for the whole process. Further calls have no effect.
pub fn start(settings: &Log) {
    let colour =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let layer = layer(settings, colour, io::stderr);
    // A program that embeds the gateway may have installed its own subscriber, which then stays.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

/// Parses a log filter: a level, or comma-separated levels for modules. Returns `None` if the filter is invalid.
pub(crate) fn filter(text: &str) -> Option<Targets> {
    let parts: Vec<_> = text.split(',').filter(|part| !part.is_empty()).collect();
    // `Targets` would ignore what is in brackets.
    let is_valid = !parts.is_empty() && !text.contains(['[', ']', '{', '}']);
    parts.join(",").parse().ok().filter(|_| is_valid)
}

/// Builds the subscriber layer with the filter and the line format.
fn layer<W>(settings: &Log, colour: bool, to: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // The settings validate the level; if it is still invalid, the default is better than no log.
    let filter = filter(&settings.level).unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let lines = tracing_subscriber::fmt::layer().with_writer(to).with_ansi(colour);
    match settings.format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: &str, format: LogFormat, say: impl FnOnce()) -> String {
        let buffer = LogBuffer::default();
        let writer = buffer.clone();
        let settings = Log { level: level.into(), format };
        let layer = layer(&settings, false, move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), say);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lines_are_for_people_or_for_machines() {
        let say = || tracing::info!(lanes = 3, "woke");
        let text = logged("info", LogFormat::Text, say);
        assert!(text.ends_with("INFO breakerbox_gateway::telemetry::log::tests: woke lanes=3\n"), "{text}");
        let line: serde_json::Value = serde_json::from_str(&logged("info", LogFormat::Json, say)).unwrap();
        assert_eq!(
            (&line["message"], &line["lanes"], &line["level"]),
            (&"woke".into(), &3.into(), &"INFO".into())
        );
    }

    #[test]
    fn only_what_was_asked_for_is_logged() {
        let table = [
            ("error", 0),
            ("warn", 1),
            ("info", 2),
            ("error,breakerbox_gateway=info", 2),
            ("breakerbox_gateway::telemetry=warn,error", 1),
            ("breakerbox_gateway=info,breakerbox_gateway::telemetry=error", 0),
            ("info,breakerbox_egress=debug", 2),
            ("breakerbox_egress=debug", 0),
            ("error,breakerbox_gateway", 3),
            ("info,", 2),
            ("off", 0),
        ];
        for (level, lines) in table {
            let text = logged(level, LogFormat::Text, || {
                tracing::warn!("one");
                tracing::info!("two");
                tracing::debug!("three");
            });
            assert_eq!(text.lines().count(), lines, "{level}");
        }
    }

    #[test]
    fn neither_levels_nor_parts_are_refused() {
        for text in ["", ",", "info,breakerbox_gateway=loud", "breakerbox_gateway=info=debug", "[span]=info"]
        {
            assert!(filter(text).is_none(), "{text}");
        }
    }
}
