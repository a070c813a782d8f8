//! The server accepts the examples of the document, and its responses are as the document says.

use http::Method;
use serde_json::Value;

use super::schema_check::faults;
use super::site::Site;
use super::things::Things;

/// The endpoint in the examples.
const ENDPOINT: &str = "ep_01h5k2m8w4c7e";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_accepts_every_example_and_answers_as_described() {
    let site = Site::start().await;
    let things = Things::of(&site, "acme").await;
    let document = breakerbox_gateway::api::document();
    let endpoint = things.fill("{endpoint}");
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if method == "delete" {
                continue;
            }
            let at = operation["operationId"].as_str().unwrap();
            let body = &operation["requestBody"]["content"]["application/json"]["example"];
            let filled = body.to_string().replace(ENDPOINT, &endpoint);
            let body: Option<Value> = (!body.is_null()).then(|| serde_json::from_str(&filled).unwrap());
            let method: Method = method.to_uppercase().parse().unwrap();
            let said = site.request(method, &things.fill(path), &site.admin, body).await;
            let status = said.status.as_u16();
            let is_expected = match at {
                // The tenant exists, and the permit does not.
                "create_tenant" => status == 409,
                "settle_permit" => status == 404,
                // An earlier operation may have decided the state.
                _ => said.status.is_success() || status == 409 && operation["requestBody"].is_null(),
            };
            let text = String::from_utf8_lossy(&said.body);
            assert!(is_expected, "{at}: {status} {text}");
            let content = operation["responses"][status.to_string()]["content"].as_object();
            let Some((media, described)) = content.and_then(|all| all.iter().next()) else { continue };
            if media.ends_with("json") {
                let wrong = faults(&document, &described["schema"], &said.json());
                assert!(wrong.is_empty(), "{at}: {wrong:?} in {text}");
                checked += 1;
            }
        }
    }
    assert!(checked > 60, "{checked}");
}
