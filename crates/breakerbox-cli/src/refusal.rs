//! Error responses of the gateway: problems (RFC 9457), with advice.

use http::header::RETRY_AFTER;
use http::response::Parts;
use serde_json::{Value, json};

/// A request that the gateway refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) problem: Value,
    /// The number of seconds to wait before a retry, from `Retry-After`.
    pub(crate) retry_after: Option<u64>,
}

impl Refusal {
    pub(super) fn new(parts: &Parts, body: &[u8]) -> Self {
        let status = parts.status.as_u16();
        let said = serde_json::from_slice(body).ok().filter(Value::is_object);
        // The response is from another server, such as a proxy.
        let problem = said.unwrap_or_else(|| {
            let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
            json!({ "status": status, "code": "unknown", "detail": text })
        });
        let seconds = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Self { status, problem, retry_after: seconds }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.problem.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns the lines to print: what went wrong, in which field, and what to do.
    pub(crate) fn lines(&self) -> Vec<String> {
        let code = self.text("code").unwrap_or("unknown");
        let what = self.text("detail").or(self.text("title")).unwrap_or("the gateway gave no reason");
        // Most details begin with the name of the field.
        let what = match self.text("field") {
            Some(field) if !what.starts_with(field) => format!("{field}: {what}"),
            _ => what.to_owned(),
        };
        let mut lines = vec![format!("{what} ({} {code})", self.status)];
        lines.extend(self.advice(code));
        lines
    }

    fn advice(&self, code: &str) -> Option<String> {
        let advice = match (self.status, code) {
            (401, _) => {
                "pass a key with --key or BREAKERBOX_API_KEY; `breakerbox keys create --data DIRECTORY` creates one"
            }
            (403, "tenant_mismatch") => "use a key of that tenant, or a key for all tenants",
            (403, _) => "use a key with that scope; `breakerbox keys list` shows the scopes of each key",
            (412, _) => "another client changed it; read it again",
            (429, "backlog_full") => {
                "the tenant's endpoints are too slow or down; `breakerbox circuits list --state open` shows them"
            }
            (507, _) => "free disk space on the gateway, or lower limits.disk_reserve",
            (404, "unknown") => "check --url: the server there seems not to be a gateway",
            _ => "",
        };
        let wait = self.retry_after.map(|seconds| format!("try again in {seconds} s")).unwrap_or_default();
        let both = [advice, &wait].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
        (!both.is_empty()).then_some(both)
    }
}
