//! Creates one resource of each kind for a tenant. The command-line tests use this module, too.

use serde_json::json;

use super::site::Site;

/// IDs that belong to one tenant, for each path parameter.
pub(super) struct Things(pub(super) Vec<(&'static str, String)>);

impl Things {
    pub(super) async fn of(site: &Site, tenant: &str) -> Self {
        let endpoint = site.endpoint(tenant).await;
        let event = site.event(tenant).await;
        let found = site.get(&format!("/v1/deliveries?event={event}"), &site.admin).await.expect(200).json();
        let delivery = found["items"][0]["id"].as_str().unwrap().to_owned();
        let shown = site.get(&format!("/v1/endpoints/{endpoint}"), &site.admin).await.expect(200).json();
        let circuit = shown["circuit"]["id"].as_str().unwrap().to_owned();
        let resend =
            site.post("/v1/resends", &site.admin, json!({ "tenant": tenant })).await.expect(201).json();
        let reminder = site.reminder(tenant).await;
        let key = json!({ "name": "x", "scopes": ["read"], "tenant": tenant });
        let key = site.post("/v1/keys", &site.admin, key).await.expect(201).json();
        Self(vec![
            ("{tenant}", tenant.to_owned()),
            ("{endpoint}", endpoint),
            ("{event}", event),
            ("{delivery}", delivery),
            ("{circuit}", circuit),
            ("{resend}", resend["id"].as_str().unwrap().to_owned()),
            ("{reminder}", reminder),
            ("{key}", key["id"].as_str().unwrap().to_owned()),
        ])
    }

    pub(super) fn fill(&self, path: &str) -> String {
        self.0.iter().fold(path.to_owned(), |path, (name, id)| path.replace(name, id))
    }
}
