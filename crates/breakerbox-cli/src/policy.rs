//! Reads a policy file, and reports errors with their line numbers.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use breakerbox_core::{PolicyBuilder, PolicyError, Preset};

use super::Failure;

/// A policy from a file, from a preset, or the default.
pub(super) struct GivenPolicy {
    builder: PolicyBuilder,
    /// The file's name and content, for error messages. `None` if the policy is not from a file.
    file: Option<(String, String)>,
}

impl GivenPolicy {
    /// Reads the file: JSON if its name ends in `.json`, otherwise TOML.
    pub(super) fn from_file(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let text = read(path, &name)?;
        let parsed = if path.extension().is_some_and(|extension| extension == "json") {
            serde_json::from_str(&text).map_err(|error| {
                let message = error.to_string();
                let reason = message.rsplit_once(" at line ").map_or(message.as_str(), |(reason, _)| reason);
                (error.line(), reason.to_owned())
            })
        } else {
            toml::from_str(&text).map_err(|error| {
                let offset = error.span().map_or(0, |span| span.start);
                let line = line_of(text.as_bytes(), offset);
                let shown = text.lines().nth(line - 1).unwrap_or_default().trim();
                let hint =
                    if error.message() == "duplicate key" { format!(": {shown}") } else { String::new() };
                (line, format!("{}{hint}", error.message()))
            })
        };
        match parsed {
            Ok(builder) => Ok(Self { builder, file: Some((name, text)) }),
            Err((line, reason)) => Err(Failure::Input(format!("{name}: line {line}: {reason}"))),
        }
    }

    /// Creates a policy that is not from a file.
    pub(super) const fn without_file(builder: PolicyBuilder) -> Self {
        Self { builder, file: None }
    }

    /// Uses the preset from the command line. The file must not name a preset as well.
    pub(super) fn with_preset(self, preset: Option<Preset>) -> Result<Self, Failure> {
        let Some(preset) = preset else { return Ok(self) };
        if let Some(in_file) = self.builder.given_preset() {
            let message = format!(
                "--preset {preset}: the policy file already sets preset = \"{in_file}\"; remove one of them"
            );
            return Err(Failure::Input(message));
        }
        Ok(Self { builder: self.builder.preset(preset), ..self })
    }

    pub(super) const fn builder(&self) -> &PolicyBuilder {
        &self.builder
    }

    /// Returns the failure for an invalid policy, with the line of the invalid field.
    pub(super) fn refused(&self, error: &PolicyError) -> Failure {
        Failure::Input(match &self.file {
            Some((name, text)) => match line_of_key(text, error.field()) {
                Some(line) => format!("{name}: line {line}: {error}"),
                None => format!("{name}: {error}"),
            },
            None => error.to_string(),
        })
    }
}

/// Reads a policy file, up to a maximum size.
fn read(path: &Path, name: &str) -> Result<String, Failure> {
    const LARGEST: u64 = 1024 * 1024;
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::Environment(format!("can't read the policy {name}: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(Failure::Input(format!("{name}: is larger than 1 MiB; is it a policy?")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
        Failure::Input(format!("{name}: line {line}: is not UTF-8"))
    })?;
    Ok(text.strip_prefix('\u{feff}').map(String::from).unwrap_or(text))
}

fn line_of(text: &[u8], offset: usize) -> usize {
    text.iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the line number of a key in the policy file: at the beginning of a line in TOML, in quotes anywhere in JSON.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let quoted = format!("\"{key}\"");
    let is_followed_by = |rest: &str, sign| rest.trim_start().starts_with(sign);
    let names = |line: &str| {
        let bare = line.trim_start().strip_prefix(key).is_some_and(|rest| is_followed_by(rest, '='));
        let in_quotes = line.split(&quoted).skip(1);
        bare || in_quotes.into_iter().any(|rest| is_followed_by(rest, ':') || is_followed_by(rest, '='))
    };
    text.lines().position(names).map(|line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_line_of_a_key() {
        let toml = "# window = 1\ncool_off_max = \"1m\"\n  \"cool_off\" = \"2m\"\n";
        assert_eq!(line_of_key(toml, "cool_off"), Some(3));
        assert_eq!(line_of_key(toml, "cool_off_max"), Some(2));
        assert_eq!(line_of_key(toml, "window"), None);
        assert_eq!(line_of_key("{ \"probes\": 0,\n \"jitter\" : 7 }", "jitter"), Some(2));
        assert_eq!(line_of_key("{\"window\":\"1m\",\"probes\":0}", "probes"), Some(1));
    }
}
