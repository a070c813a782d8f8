//! Valid and invalid clients generated from the document: every statement in it must be true. `cargo xtask fuzz-api`
//! installs the generator, and runs this.

use std::process::Command;

use breakerbox_gateway::api::Limits;
use breakerbox_model::objects::Scope;
use http::Method;

use super::site::Site;
use super::things::Things;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs schemathesis; cargo xtask fuzz-api"]
async fn everything_is_as_the_document_says() {
    let program = std::env::var_os("BREAKERBOX_SCHEMATHESIS").expect("the path of schemathesis");
    let arguments = std::env::var("BREAKERBOX_SCHEMATHESIS_ARGUMENTS").unwrap_or_default();
    // Some of the generated clients have no key, and all have the same address.
    let site = Site::with(Limits { auth_failures: u32::MAX, ..Limits::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("schemathesis.toml"), settings(&Things::of(&site, "default").await))
        .unwrap();
    let key = site.key(&[Scope::Admin], None).await;
    let mut run = Command::new(program);
    run.current_dir(folder.path())
        .arg("run")
        .arg(format!("http://{}/openapi.json", site.address))
        .args(["--header", &format!("Authorization: Bearer {key}")])
        .args(arguments.split_whitespace());
    let status = tokio::task::spawn_blocking(move || run.status()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    // The server still responds.
    site.request(Method::GET, "/v1/tenants", &site.admin, None).await.expect(200);
}

/// Returns settings for the generator. Path parameters are IDs of existing resources, because otherwise most responses
/// would be 404; those of DELETE requests don't exist. Cursors, revisions and circuits in queries are fixed,
/// because generated ones would only be rejected.
fn settings(things: &Things) -> String {
    let mut settings = String::from("[parameters]\n\"query.cursor\" = \"\"\n\"header.if-match\" = \"*\"\n");
    for name in ["tenant", "endpoint", "event", "delivery", "circuit", "resend", "reminder", "key"] {
        settings += &format!("\"path.{name}\" = \"{}\"\n", things.fill(&format!("{{{name}}}")));
    }
    settings += &format!("\"query.circuit\" = \"{}\"\n", things.fill("{circuit}"));
    for (path, name, id) in [
        ("/v1/endpoints/{endpoint}", "endpoint", "ep_0000000000007"),
        ("/v1/tenants/{tenant}", "tenant", "never"),
    ] {
        settings += &format!(
            "[[operations]]\ninclude-name = \"DELETE {path}\"\n\
             parameters = {{ \"path.{name}\" = \"{id}\" }}\n"
        );
    }
    // An invalid item of these batches gets a problem of its own, in a response with 200.
    for path in ["/v1/circuits/acquire/batch", "/v1/permits/settle/batch"] {
        settings += &format!(
            "[[operations]]\ninclude-name = \"POST {path}\"\n\
             checks = {{ negative_data_rejection = {{ expected-statuses = [\"200\", \"4xx\"] }} }}\n"
        );
    }
    // Invalid data may be refused with any 4xx, such as 404 for a tenant that does not exist. That a 5xx is an error is
    // another check. A request that matches the document can still be invalid, such as a time range that ends before it
    // begins.
    settings
        + "[checks.negative_data_rejection]\n\
           expected-statuses = [\"4xx\", \"5xx\"]\n\
           [checks.positive_data_acceptance]\n\
           expected-statuses = [\"2xx\", \"401\", \"403\", \"404\", \"409\", \"412\", \"413\", \"422\", \"429\", \"503\"]\n"
}
