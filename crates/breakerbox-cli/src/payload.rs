//! Reads a command's payload from an argument, a file, or standard input.

use std::fs::File;
use std::io::{self, IsTerminal, Read};

use serde_json::value::RawValue;

use super::failure::{Failure, say};

/// Returns the bytes of a payload argument: the argument itself, `@FILE`, or `-` for standard input.
pub(super) fn read(argument: &str) -> Result<Vec<u8>, Failure> {
    match (argument, argument.strip_prefix('@')) {
        ("-", _) => {
            if io::stdin().is_terminal() {
                say("breakerbox: reading the payload from standard input; end it with Ctrl-D");
            }
            from("standard input", io::stdin())
        }
        (_, Some(path)) => file(path),
        (text, None) => Ok(text.into()),
    }
}

/// Reads the bytes of a file.
pub(super) fn file(path: &str) -> Result<Vec<u8>, Failure> {
    from(path, File::open(path).map_err(|error| unreadable(path, &error))?)
}

fn from(name: &str, mut source: impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![];
    source.read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    Ok(bytes)
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::Environment(format!("can't read the payload from {name}: {error}"))
}

/// Checks that the payload is JSON, and returns it byte for byte.
pub(super) fn json(payload: &[u8]) -> Result<&RawValue, Failure> {
    serde_json::from_slice(payload).map_err(|error| {
        Failure::Input(format!("the payload is not JSON: {error}; for another format, use --content-type"))
    })
}
