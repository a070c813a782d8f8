//! The log. It goes to standard error, so that standard output is free for the output of commands.

use std::io::{self, IsTerminal};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::{Log, LogFormat};

/// Starts logging for the whole process. A second call has no effect.
pub fn start(settings: &Log) {
    let colour =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let layer = layer(settings, colour, io::stderr);
    // A program that embeds the gateway may have installed its own subscriber, which then stays.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

/// Builds the filter and the format of log lines.
fn layer<W>(settings: &Log, colour: bool, to: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // The level was checked with the settings; for an unchecked invalid one, the default is better than no log.
    let filter = EnvFilter::try_new(&settings.level).unwrap_or_else(|_| EnvFilter::new("info"));
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
        for (level, lines) in
            [("error", 0), ("warn", 1), ("info", 2), ("error,breakerbox_gateway=info", 2), ("off", 0)]
        {
            let text = logged(level, LogFormat::Text, || {
                tracing::warn!("one");
                tracing::info!("two");
                tracing::debug!("three");
            });
            assert_eq!(text.lines().count(), lines, "{level}");
        }
    }
}
