//! The command that sends the example of a request. It uses the variables of the guides: `$URL` and `$KEY`.

use serde_json::Value;

/// The maximum length of a body that is written on one line, in characters.
const ONE_LINE: usize = 80;

/// Returns the command for an operation, with the examples of its path parameters and its body.
pub(super) fn command(path: &str, method: &str, operation: &Value) -> String {
    let body = &operation["requestBody"]["content"]["application/json"]["example"];
    let implied = if body.is_null() { "get" } else { "post" };
    let mut command = "curl ".to_owned();
    if method != implied {
        command += &format!("-X {} ", method.to_uppercase());
    }
    command += &format!("$URL{}", filled(path, operation));
    if operation["security"][0]["api_key"].is_array() {
        command += " \\\n  -H \"Authorization: Bearer $KEY\"";
    }
    if !body.is_null() {
        command += &format!(" \\\n  --json '{}'", written(body).replace('\'', "'\\''"));
    }
    command
}

/// Returns the path with the examples of its parameters.
fn filled(path: &str, operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters.fold(path.to_owned(), |path, parameter| {
        let (name, example) = (parameter["name"].as_str(), parameter["example"].as_str());
        path.replace(&format!("{{{}}}", name.unwrap_or_default()), example.unwrap_or_default())
    })
}

fn written(body: &Value) -> String {
    let line = body.to_string();
    if line.chars().count() <= ONE_LINE { line } else { serde_json::to_string_pretty(body).unwrap_or(line) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_has_the_path_the_key_and_the_body() {
        let parameters = json!([{ "name": "event", "example": "evt_1" }, { "name": "limit" }]);
        let read = json!({ "parameters": parameters, "security": [{ "api_key": ["read"] }] });
        let expected = "curl $URL/v1/events/evt_1 \\\n  -H \"Authorization: Bearer $KEY\"";
        assert_eq!(command("/v1/events/{event}", "get", &read), expected);
        let body = json!({ "content": { "application/json": { "example": { "reason": "it's late" } } } });
        let change = json!({ "requestBody": body, "security": [{}] });
        assert_eq!(
            command("/a", "post", &change),
            "curl $URL/a \\\n  --json '{\"reason\":\"it'\\''s late\"}'"
        );
        assert!(command("/a", "patch", &change).starts_with("curl -X PATCH $URL/a"));
        assert_eq!(command("/a", "delete", &json!({})), "curl -X DELETE $URL/a");
    }
}
