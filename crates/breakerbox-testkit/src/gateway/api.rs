//! A blocking client for a gateway's API.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Method;
use reqwest::blocking::Client;
use serde_json::{Value, json};

use super::{GatewayError, Metrics};
use crate::load::{Load, NUMBER, STAMP, Template};

/// The timeout for a request, so that no test hangs forever.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A client for a gateway's API, with one API key.
#[derive(Clone, Debug)]
pub struct Api {
    address: SocketAddr,
    key: String,
    client: Client,
}

/// The event that a load generator submits repeatedly.
#[derive(Clone, Debug)]
pub struct Event {
    /// The ID of the tenant that submits the event.
    pub tenant: String,
    /// The event type. Each [`NUMBER`] in the type is replaced by the number of the request.
    pub kind: String,
    /// The event's priority, in the API's spelling.
    pub priority: &'static str,
    /// The payload size in bytes.
    pub size: usize,
}

impl Event {
    /// Returns an event with this tenant and type, and a payload of 512 bytes.
    #[must_use]
    pub fn new(tenant: &str, kind: &str) -> Self {
        Self { tenant: tenant.into(), kind: kind.into(), priority: "medium", size: 512 }
    }

    fn body(&self) -> String {
        let Self { tenant, kind, priority, size } = self;
        let payload = payload(*size);
        format!(r#"{{"tenant":"{tenant}","type":"{kind}","priority":"{priority}","payload":{payload}}}"#)
    }
}

/// Returns a JSON payload of this many bytes (or the minimum, if that is more), with placeholders for the
/// send time and the request's number.
#[must_use]
pub fn payload(size: usize) -> String {
    let fixed = format!(r#"{{"at":"{STAMP}","n":"{NUMBER}","fill":""}}"#);
    let fill = "x".repeat(size.saturating_sub(fixed.len()));
    format!(r#"{{"at":"{STAMP}","n":"{NUMBER}","fill":"{fill}"}}"#)
}

impl Api {
    /// Returns a client for the gateway at this address.
    #[must_use]
    pub fn new(address: SocketAddr, key: &str) -> Self {
        let client = Client::builder().timeout(REQUEST_TIMEOUT).no_proxy().build().unwrap_or_default();
        Self { address, key: key.to_owned(), client }
    }

    /// Returns a client for the same gateway, with another API key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    /// Sends a request, and returns the response's status (even an error status), and its body if the body is
    /// JSON.
    ///
    /// # Errors
    /// Returns an error if no response arrives.
    pub fn request(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), GatewayError> {
        let no_answer = |source| GatewayError::NoAnswer { request: format!("{method} {path}"), source };
        let mut request = self.client.request(method.clone(), format!("http://{}{path}", self.address));
        request = request.bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send().map_err(no_answer)?;
        let status = answer.status().as_u16();
        let text = answer.text().map_err(no_answer)?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    fn done(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, GatewayError> {
        let (status, answer) = self.request(method, path, body)?;
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        Err(GatewayError::Refused { request: format!("{method} {path}"), status, body: answer.to_string() })
    }

    /// Sends a `GET` request.
    ///
    /// # Errors
    /// Returns an error if the status is not a success.
    pub fn get(&self, path: &str) -> Result<Value, GatewayError> {
        self.done(&Method::GET, path, None)
    }

    /// Sends a `POST` request.
    ///
    /// # Errors
    /// Returns an error if the status is not a success.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, GatewayError> {
        self.done(&Method::POST, path, Some(body))
    }

    /// Sends a `PATCH` request.
    ///
    /// # Errors
    /// Returns an error if the status is not a success.
    pub fn patch(&self, path: &str, body: &Value) -> Result<Value, GatewayError> {
        self.done(&Method::PATCH, path, Some(body))
    }

    /// Sends a `DELETE` request.
    ///
    /// # Errors
    /// Returns an error if the status is not a success.
    pub fn delete(&self, path: &str) -> Result<Value, GatewayError> {
        self.done(&Method::DELETE, path, None)
    }

    /// Creates a tenant.
    ///
    /// # Errors
    /// Returns an error if the gateway rejects the request.
    pub fn create_tenant(&self, id: &str, settings: &Value) -> Result<(), GatewayError> {
        self.post("/v1/tenants", &with(json!({"id": id}), settings)).map(drop)
    }

    /// Creates an endpoint, and returns its ID.
    ///
    /// # Errors
    /// Returns an error if the gateway rejects the request.
    pub fn create_endpoint(
        &self,
        tenant: &str,
        url: &str,
        types: &[&str],
        settings: &Value,
    ) -> Result<String, GatewayError> {
        let body = with(json!({"tenant": tenant, "url": url, "types": types}), settings);
        let created = self.post("/v1/endpoints", &body)?;
        let id = created.pointer("/id").or(created.pointer("/endpoint/id")).and_then(Value::as_str);
        id.map(str::to_owned).ok_or_else(|| GatewayError::Refused {
            request: "POST /v1/endpoints".into(),
            status: 200,
            body: created.to_string(),
        })
    }

    /// Returns the samples from `/metrics`.
    ///
    /// # Errors
    /// Returns an error if the gateway does not respond.
    pub fn metrics(&self) -> Result<Metrics, GatewayError> {
        let answer = self.done(&Method::GET, "/metrics", None)?;
        Ok(Metrics::parse(answer.as_str().unwrap_or_default()))
    }

    /// Returns a load generator that submits events like this one, one per request.
    #[must_use]
    pub fn load(&self, event: &Event) -> Load {
        Load::new(self.address, self.template("/v1/events", &event.body()))
    }

    /// Returns a load generator that submits batches of `count` events like this one.
    #[must_use]
    pub fn load_of_batches(&self, event: &Event, count: usize) -> Load {
        let Event { tenant, kind, priority, size } = event;
        let one = format!(r#"{{"type":"{kind}","priority":"{priority}","payload":{}}}"#, payload(*size));
        let events = vec![one; count].join(",");
        let body = format!(r#"{{"tenant":"{tenant}","events":[{events}]}}"#);
        Load::new(self.address, self.template("/v1/events/batch", &body))
    }

    /// Returns a `POST` request with this body and the API key.
    #[must_use]
    pub fn template(&self, path: &str, body: &str) -> Template {
        let bearer = format!("Bearer {}", self.key);
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        Template::post(&self.address.to_string(), path, &headers, body)
    }
}

/// Adds the fields of `other` to the JSON object `one`, replacing fields with the same name.
fn with(mut one: Value, other: &Value) -> Value {
    if let (Some(one), Some(other)) = (one.as_object_mut(), other.as_object()) {
        one.extend(other.clone());
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_as_large_as_it_is_said_to_be() {
        for size in [100, 512, 4_000] {
            assert_eq!(payload(size).len(), size);
        }
        assert_eq!(with(json!({"a": 1}), &json!({"b": 2})), json!({"a": 1, "b": 2}));
    }
}
