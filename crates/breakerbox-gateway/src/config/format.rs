//! Formats of values, one for each type: parsing from file, variables and flags, and writing as TOML.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use breakerbox_core::{DurationError, format_duration, parse_duration};
use breakerbox_egress::Proxy;
use breakerbox_model::delivery::{MAX_WAIT, MAX_WAITS, MIN_WAIT, RetrySchedule};
use breakerbox_model::notifications::{Kind, address, target_url};
use ipnet::IpNet;
use lettre::Address;
use lettre::message::Mailbox;
use url::Url;

use super::error::Wrong;
use super::size::{format_size, parse_size};
use super::values::Hidden;
use crate::notifications::check_mail_url;
use crate::telemetry::log::{self, LogFormat};

/// A value as given by its source, before its setting parses it.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Raw {
    /// Strings from a variable or a flag, whose type is not known yet.
    Words(Vec<String>),
    /// A string from a file.
    Text(String),
    Integer(i128),
    Float(f64),
    Bool(bool),
    List(Vec<Raw>),
    /// A table or a date, which no setting accepts.
    Other(&'static str),
}

impl Raw {
    fn describe(&self) -> String {
        match self {
            Self::Words(words) => format!("{:?}", shortened(&words.join(","))),
            Self::Text(text) => format!("the string {:?}", shortened(text)),
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => format!("{number:?}"),
            Self::Bool(value) => value.to_string(),
            Self::List(_) => "a list".into(),
            Self::Other(what) => (*what).into(),
        }
    }

    /// Returns the value if it is a string. For a repeated flag, the last string.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Words(words) => words.last().map(String::as_str),
            _ => None,
        }
    }
}

/// Shortens a string, so that an error does not quote megabytes.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 64;
    if text.chars().nth(LONGEST).is_none() {
        return text.into();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

/// Quotes a string as a TOML basic string. The JSON serializer's output is valid TOML, except that TOML requires DEL
/// to be escaped.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

pub(super) trait Format {
    type Value;

    fn read(&self, raw: &Raw) -> Result<Self::Value, Wrong>;

    /// Formats a value as TOML.
    fn write(&self, value: &Self::Value) -> String;

    /// Describes the accepted values, as a phrase that follows "must be".
    fn expects(&self) -> String;

    fn wrong_type(&self, raw: &Raw) -> Wrong {
        Wrong::Type { expected: self.expects(), found: raw.describe() }
    }

    fn unreadable(&self, text: &str) -> Wrong {
        Wrong::Unreadable { found: shortened(text), expected: self.expects() }
    }
}

fn in_range<T: PartialOrd>(value: T, least: &T, most: &T, write: impl Fn(&T) -> String) -> Result<T, Wrong> {
    if value < *least || value > *most {
        return Err(Wrong::Range { least: write(least), most: write(most), found: write(&value) });
    }
    Ok(value)
}

/// A duration such as `"30s"`.
pub(super) struct Span {
    pub(super) least: Duration,
    pub(super) most: Duration,
}

impl Format for Span {
    type Value = Duration;

    fn read(&self, raw: &Raw) -> Result<Duration, Wrong> {
        if let Raw::Integer(number) = raw
            && let Ok(seconds) = u64::try_from(*number)
        {
            let error = DurationError::NumberOnly(seconds);
            return Err(Wrong::Duration { found: number.to_string(), error });
        }
        let text = raw.text().ok_or_else(|| self.wrong_type(raw))?;
        let found =
            parse_duration(text).map_err(|error| Wrong::Duration { found: shortened(text), error })?;
        in_range(found, &self.least, &self.most, |span| format_duration(*span))
    }

    fn write(&self, value: &Duration) -> String {
        quoted(&format_duration(*value))
    }

    fn expects(&self) -> String {
        let (least, most) = (format_duration(self.least), format_duration(self.most));
        format!("a duration such as \"30s\", {least} to {most}")
    }
}

/// A size in bytes such as `"256KiB"`.
pub(super) struct Size {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Format for Size {
    type Value = u64;

    fn read(&self, raw: &Raw) -> Result<u64, Wrong> {
        let text = raw.text().ok_or_else(|| self.wrong_type(raw))?;
        let found = parse_size(text).map_err(|error| Wrong::Size { found: shortened(text), error })?;
        in_range(found, &self.least, &self.most, |size| format_size(*size))
    }

    fn write(&self, value: &u64) -> String {
        quoted(&format_size(*value))
    }

    fn expects(&self) -> String {
        format!("a size such as \"256KiB\", {} to {}", format_size(self.least), format_size(self.most))
    }
}

/// A whole number within a range.
pub(super) struct Count<T> {
    pub(super) least: T,
    pub(super) most: T,
}

impl<T> Format for Count<T>
where
    T: Copy + TryFrom<i128> + Into<i128>,
{
    type Value = T;

    fn read(&self, raw: &Raw) -> Result<T, Wrong> {
        let found = match raw {
            Raw::Integer(number) => *number,
            Raw::Words(words) => {
                words.last().and_then(|word| word.parse().ok()).ok_or_else(|| self.wrong_type(raw))?
            }
            _ => return Err(self.wrong_type(raw)),
        };
        let found = in_range(found, &self.least.into(), &self.most.into(), i128::to_string)?;
        T::try_from(found).map_err(|_| self.wrong_type(raw))
    }

    fn write(&self, value: &T) -> String {
        (*value).into().to_string()
    }

    fn expects(&self) -> String {
        format!("a whole number, {} to {}", self.least.into(), self.most.into())
    }
}

/// A value of format `F`, or a keyword that means `None`.
pub(super) struct Or<F>(pub(super) F, pub(super) &'static str);

impl<F: Format> Format for Or<F> {
    type Value = Option<F::Value>;

    fn read(&self, raw: &Raw) -> Result<Self::Value, Wrong> {
        if raw.text() == Some(self.1) {
            return Ok(None);
        }
        self.0.read(raw).map(Some).map_err(|wrong| match wrong {
            Wrong::Type { found, .. } => Wrong::Type { expected: self.expects(), found },
            Wrong::Unreadable { found, .. } => Wrong::Unreadable { expected: self.expects(), found },
            other => other,
        })
    }

    fn write(&self, value: &Self::Value) -> String {
        value.as_ref().map_or_else(|| quoted(self.1), |value| self.0.write(value))
    }

    fn expects(&self) -> String {
        format!("{}, or {:?}", self.0.expects(), self.1)
    }
}

/// A boolean: `true` or `false`, without quotes in a file.
pub(super) struct Switch;

impl Format for Switch {
    type Value = bool;

    fn read(&self, raw: &Raw) -> Result<bool, Wrong> {
        match (raw, raw.text()) {
            (Raw::Bool(value), _) => Ok(*value),
            (Raw::Words(_), Some("true")) => Ok(true),
            (Raw::Words(_), Some("false")) => Ok(false),
            _ => Err(self.wrong_type(raw)),
        }
    }

    fn write(&self, value: &bool) -> String {
        value.to_string()
    }

    fn expects(&self) -> String {
        "true or false".into()
    }
}

/// A value that is parsed from a string and formatted by these functions.
pub(super) struct Read<T> {
    pub(super) expects: &'static str,
    pub(super) parse: fn(&str) -> Option<T>,
    pub(super) show: fn(&T) -> String,
}

impl<T> Format for Read<T> {
    type Value = T;

    fn read(&self, raw: &Raw) -> Result<T, Wrong> {
        let text = raw.text().ok_or_else(|| self.wrong_type(raw))?;
        (self.parse)(text).ok_or_else(|| self.unreadable(text))
    }

    fn write(&self, value: &T) -> String {
        quoted(&(self.show)(value))
    }

    fn expects(&self) -> String {
        self.expects.into()
    }
}

pub(super) const ADDRESS: Read<SocketAddr> = Read {
    expects: "an address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"",
    parse: |text| text.parse().ok(),
    show: SocketAddr::to_string,
};

pub(super) const PATH: Read<PathBuf> = Read {
    expects: "a path",
    parse: |text| (!text.is_empty() && !text.contains('\0')).then(|| text.into()),
    show: |path| path.display().to_string(),
};

/// A network or an address. A network with host bits set, such as 10.1.2.3/8, is rejected, because it could mean the
/// address or the network.
pub(super) const NETWORK: Read<IpNet> = Read {
    expects: "a network such as \"10.0.0.0/8\" (with no bits set after its prefix) or an address",
    parse: |text| match text.parse::<IpNet>() {
        Ok(network) => (network.trunc() == network).then_some(network),
        Err(_) => text.parse::<IpAddr>().ok().map(IpNet::from),
    },
    show: IpNet::to_string,
};

pub(super) const PROXY: Read<Url> = Read {
    expects: "the URL of an HTTP proxy, such as \"http://proxy.internal:3128\"",
    parse: |text| {
        let url = Url::parse(text).ok()?;
        (Proxy::new(&url).is_ok() && url.fragment().is_none()).then_some(url)
    },
    show: |url| url.as_str().trim_end_matches('/').into(),
};

pub(super) const WEBHOOK: Read<Url> = Read {
    expects: "a URL that begins with http:// or https://, without a user name or password",
    parse: |text| target_url(text).ok(),
    show: Url::to_string,
};

pub(super) const MAIL_SERVER: Read<Url> = Read {
    expects: "the URL of a mail server without a password, such as \"smtp://user@mail.example.com:587\"",
    parse: |text| Url::parse(text).ok().filter(|url| check_mail_url(url).is_ok()),
    show: Url::to_string,
};

pub(super) const MAIL_ADDRESS: Read<Address> = Read {
    expects: "an address such as \"ops@example.com\"",
    parse: |text| address(text).ok(),
    show: Address::to_string,
};

pub(super) const MAILBOX: Read<Mailbox> = Read {
    expects: "an address such as \"breakerbox@example.com\" or \"Breakerbox <breakerbox@example.com>\"",
    parse: |text| text.parse().ok(),
    show: Mailbox::to_string,
};

pub(super) const NOTIFICATION_KIND: Read<Kind> = Read {
    expects: "a notification type: trip, recovery, disabled, disable_warning, store_lost, store_back, database_lost, database_back, network_lost, network_back, dead_letters or reminder_stopped",
    parse: |text| text.parse().ok(),
    show: Kind::to_string,
};

pub(super) const LEVEL: Read<String> = Read {
    expects: "a level (error, warn, info, debug, trace, off), or levels for modules, such as \"info,breakerbox_egress=debug\"",
    parse: |text| {
        // A single word that is not a level would be taken for a module name, and all other modules would log nothing.
        let lone = !text.contains(['=', ',', '[']);
        let levels = ["error", "warn", "info", "debug", "trace", "off"];
        let fits = if lone { levels.contains(&text) } else { log::filter(text).is_some() };
        fits.then(|| text.into())
    },
    show: String::clone,
};

pub(super) const LOG_FORMAT: Read<LogFormat> = Read {
    expects: "\"text\" or \"json\"",
    parse: |text| LogFormat::ALL.into_iter().find(|format| format.name() == text),
    show: |format| format.name().into(),
};

/// A secret string. It is never written to output.
pub(super) struct Secret;

impl Format for Secret {
    type Value = Option<Hidden>;

    fn read(&self, raw: &Raw) -> Result<Self::Value, Wrong> {
        Ok(raw.text().map(|text| Hidden::new(text.into())))
    }

    fn write(&self, value: &Self::Value) -> String {
        quoted(if value.is_some() { "(hidden)" } else { "" })
    }

    fn expects(&self) -> String {
        "a secret".into()
    }
}

/// A list. In a variable or a flag, its items are separated by commas.
pub(super) struct List<F> {
    pub(super) of: F,
    pub(super) most: usize,
}

impl<F: Format> Format for List<F> {
    type Value = Vec<F::Value>;

    fn read(&self, raw: &Raw) -> Result<Self::Value, Wrong> {
        let items: Vec<Raw> = match raw {
            Raw::List(items) => items.clone(),
            Raw::Words(words) => {
                let items = words.iter().flat_map(|words| words.split(',')).map(str::trim);
                items.filter(|item| !item.is_empty()).map(|item| Raw::Words(vec![item.into()])).collect()
            }
            _ => return Err(self.wrong_type(raw)),
        };
        if items.len() > self.most {
            return Err(Wrong::TooMany { most: self.most, found: items.len() });
        }
        let item = |(index, item)| {
            self.of.read(item).map_err(|wrong| Wrong::Item { number: index + 1, wrong: Box::new(wrong) })
        };
        items.iter().enumerate().map(item).collect()
    }

    fn write(&self, value: &Self::Value) -> String {
        let items: Vec<_> = value.iter().map(|item| self.of.write(item)).collect();
        format!("[{}]", items.join(", "))
    }

    fn expects(&self) -> String {
        format!("a list, each item {}", self.of.expects())
    }
}

/// The delays between attempts of a delivery.
pub(super) struct Waits;

impl Waits {
    const LIST: List<Span> = List { of: Span { least: MIN_WAIT, most: MAX_WAIT }, most: MAX_WAITS };
}

impl Format for Waits {
    type Value = RetrySchedule;

    fn read(&self, raw: &Raw) -> Result<RetrySchedule, Wrong> {
        let waits = Self::LIST.read(raw)?;
        RetrySchedule::new(waits).map_err(|error| Wrong::Refused(error.to_string()))
    }

    fn write(&self, value: &RetrySchedule) -> String {
        Self::LIST.write(&value.waits().to_vec())
    }

    fn expects(&self) -> String {
        Self::LIST.expects()
    }
}
