//! The Lua scripts: one for each operation, and one that removes expired circuits. After the first run, a
//! server knows a script by its hash.
//!
//! The scripts count, compare, swap and maintain the index, and never decide. All keys that a script accesses
//! are passed to it.

use std::sync::LazyLock;

use redis::{Cmd, Script};

/// The name of a Lua script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScriptName {
    Merge,
    Read,
    SwapIf,
    Forget,
    Ramp,
    Lead,
    CheckWrite,
}

static MERGE: LazyLock<Loaded> = LazyLock::new(|| Loaded::new(include_str!("scripts/merge.lua")));
static READ: LazyLock<Loaded> = LazyLock::new(|| Loaded::new(include_str!("scripts/read.lua")));
static SWAP_IF: LazyLock<Loaded> = LazyLock::new(|| Loaded::new(include_str!("scripts/swap_if.lua")));
static FORGET: LazyLock<Loaded> = LazyLock::new(|| Loaded::new(include_str!("scripts/forget.lua")));
static RAMP: LazyLock<Loaded> = LazyLock::new(|| Loaded::new(include_str!("scripts/ramp.lua")));
static LEAD: LazyLock<Loaded> = LazyLock::new(|| Loaded::new(include_str!("scripts/lead.lua")));
static CHECK_WRITE: LazyLock<Loaded> = LazyLock::new(|| Loaded::new(include_str!("scripts/check_write.lua")));

struct Loaded {
    text: &'static str,
    hash: String,
}

impl Loaded {
    fn new(text: &'static str) -> Self {
        Self { text, hash: Script::new(text).get_hash().to_owned() }
    }
}

impl ScriptName {
    /// Returns the command that runs the script by its hash; with `by_text`, by its source, for a server that
    /// does not know the hash.
    pub(crate) fn command(self, by_text: bool, keys: &[String], arguments: &[Vec<u8>]) -> Cmd {
        let script = match self {
            Self::Merge => &MERGE,
            Self::Read => &READ,
            Self::SwapIf => &SWAP_IF,
            Self::Forget => &FORGET,
            Self::Ramp => &RAMP,
            Self::Lead => &LEAD,
            Self::CheckWrite => &CHECK_WRITE,
        };
        let mut command = if by_text { redis::cmd("EVAL") } else { redis::cmd("EVALSHA") };
        command.arg(if by_text { script.text } else { &script.hash });
        command.arg(keys.len()).arg(keys);
        arguments.iter().for_each(|argument| _ = command.arg(argument.as_slice()));
        command
    }
}
