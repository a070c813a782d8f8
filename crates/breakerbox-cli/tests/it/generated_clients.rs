//! Clients generated from `/openapi.json`: the generators have no warnings, and the Python program of the API guide
//! type-checks, and works against a real gateway.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use breakerbox_testkit::gateway::Gateway;
use breakerbox_testkit::receiver::Receiver;
use serde_json::json;

use crate::command::root;
use crate::programs::{GENERATED_CLIENT, name, programs};

/// What the Python tests install: the generator; `ruff`, with which it formats the client, in a version whose default
/// rules leave the types as they are; what generated clients use; and the type checker.
const PYTHON: [&str; 5] =
    ["openapi-python-client==0.29.1", "ruff==0.14.14", "httpx==0.28.1", "attrs==26.1.0", "mypy==2.4.1"];
const TYPESCRIPT: [&str; 2] = ["openapi-typescript@7.13.0", "typescript@5.9.3"];
/// A generous timeout, so that a hanging test fails.
const LONG: Duration = Duration::from_secs(300);

/// Loads each example of the document into the generated classes, and writes it back. Prints how many there were.
const ROUND_TRIP: &str = r##"
import json, sys
from breakerbox_gateway_client import models

def plain(value):
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, str) and value.endswith("Z"):
        return value[:-1] + "+00:00"
    return value

count = 0
document = json.load(open(sys.argv[1]))
for item in document["paths"].values():
    for operation in item.values():
        described = [operation.get("requestBody", {}), *operation["responses"].values()]
        for content in [inner for one in described for inner in one.get("content", {}).values()]:
            name = content["schema"].get("$ref", "").rsplit("/", 1)[-1].replace("_", "")
            if not hasattr(models, name):
                continue
            example = content["example"]
            back = getattr(models, name).from_dict(example).to_dict()
            assert plain(back) == plain(example), f"{operation['operationId']}: {back} is not {example}"
            count += 1
print(count)
"##;

/// Installs packages into a directory, if they are not there. Several tests may install them at once, so the directory
/// is moved into place atomically.
fn installed(name: &str, install: impl FnOnce(&Path) -> Command) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name.replace([' ', '='], "-"));
    if !folder.exists() {
        let fresh = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        run(&mut install(fresh.path()));
        if std::fs::rename(fresh.path(), &folder).is_err() {
            assert!(folder.exists(), "{name} was installed, and can't be moved to {}", folder.display());
        }
    }
    folder
}

/// Runs a command to its end, and returns its output. Panics if it fails or takes too long.
fn run(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let output = |name: &str| Stdio::from(std::fs::File::create(file(name)).unwrap());
    command.stdin(Stdio::null()).stdout(output("stdout")).stderr(output("stderr"));
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > LONG {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{shown} takes too long");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = |name: &str| std::fs::read_to_string(file(name)).unwrap();
    assert!(status.success(), "{shown}: {status}\n{}\n{}", said("stdout"), said("stderr"));
    format!("{}{}", said("stdout"), said("stderr"))
}

/// Returns a command that runs a Python program with the installed packages and the generated client.
fn python(packages: &Path, client: &Path) -> Command {
    let mut python = Command::new("python3");
    let search = std::env::join_paths([packages, client]).unwrap();
    let mut programs = OsString::from(packages.join("bin"));
    programs.push(":");
    programs.push(std::env::var_os("PATH").unwrap_or_default());
    python
        .env("PYTHONPATH", search)
        .env("PATH", programs)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("no_proxy", "*");
    python
}

fn python_packages() -> PathBuf {
    installed(&format!("clients {} {}", PYTHON[0], PYTHON[4]), |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(folder);
        pip.args(PYTHON);
        pip
    })
}

/// Returns the Python program in the API guide.
fn program() -> String {
    let guide = std::fs::read_to_string(root().join("docs/guide/api.md")).unwrap();
    programs(&guide).into_iter().find(|program| name(program) == GENERATED_CLIENT).unwrap()
}

fn document(gateway: &Gateway, folder: &Path) -> PathBuf {
    let file = folder.join("openapi.json");
    let document = gateway.api().get("/openapi.json").unwrap();
    std::fs::write(&file, document.to_string()).unwrap();
    file
}

#[test]
fn the_python_client_sends_reads_pages_and_handles_problems() {
    let packages = python_packages();
    let receiver = Receiver::start().unwrap();
    let gateway = Gateway::start(Path::new(env!("CARGO_BIN_EXE_breakerbox"))).unwrap();
    let api = gateway.api();
    for path in ["/one", "/two", "/three"] {
        api.post("/v1/endpoints", &json!({ "url": receiver.url(path) })).unwrap();
    }
    let new = json!({ "name": "client", "scopes": ["send", "read"], "tenant": "default" });
    let key = api.post("/v1/keys", &new).unwrap()["key"].as_str().unwrap().to_owned();

    let folder = tempfile::tempdir().unwrap();
    let document = document(&gateway, folder.path());
    let mut generate = python(&packages, folder.path());
    generate.args([
        "-m",
        "openapi_python_client",
        "generate",
        "--meta",
        "none",
        "--fail-on-warning",
        "--path",
    ]);
    generate.arg(&document).arg("--output-path").arg(folder.path().join("breakerbox_gateway_client"));
    let said = run(&mut generate);
    assert!(!said.contains("WARNING") && !said.contains("ERROR"), "{said}");

    let file = folder.path().join("program.py");
    std::fs::write(&file, program()).unwrap();
    let mut check = python(&packages, folder.path());
    check.args(["-m", "mypy", "--strict", "--cache-dir", "cache", "program.py", "breakerbox_gateway_client"]);
    run(check.current_dir(folder.path()));

    let mut examples = python(&packages, folder.path());
    let said = run(examples.args(["-c", ROUND_TRIP]).arg(&document));
    assert!(said.trim().parse::<u32>().unwrap() > 500, "{said}");

    let mut program = python(&packages, folder.path());
    program.arg(&file).env("URL", format!("http://{}", gateway.address())).env("KEY", key);
    let said = run(&mut program);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(lines[0].starts_with("accepted evt_") && lines[0].ends_with(" with 3 deliveries"), "{said}");
    assert!(
        lines[1..4].iter().all(|line| line.starts_with("dlv_") && line.ends_with(" delivered")),
        "{said}"
    );
    assert!(lines[4].starts_with("not_found: "), "{said}");
    assert_eq!(receiver.seen_in_all().delivered, 3);
}

#[test]
fn the_typescript_types_are_generated_and_check() {
    let packages = installed(&TYPESCRIPT.join(" ").replace('@', "-"), |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix"])
            .arg(folder)
            .args(TYPESCRIPT);
        npm
    });
    let gateway = Gateway::start(Path::new(env!("CARGO_BIN_EXE_breakerbox"))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let document = document(&gateway, folder.path());
    let node = |program: &str| {
        let mut node = Command::new("node");
        node.arg(packages.join("node_modules").join(program)).current_dir(folder.path());
        node
    };
    let said = run(node("openapi-typescript/bin/cli.js").arg(&document).args(["--output", "breakerbox.ts"]));
    assert!(!said.to_lowercase().contains("warn"), "{said}");
    std::fs::write(folder.path().join("program.ts"), TYPESCRIPT_PROGRAM).unwrap();
    run(node("typescript/bin/tsc").args(["--noEmit", "--strict", "program.ts"]));
    // The check finds a wrong type.
    let wrong = TYPESCRIPT_PROGRAM.replace("\"high\"", "\"urgent\"");
    std::fs::write(folder.path().join("program.ts"), wrong).unwrap();
    assert!(
        !node("typescript/bin/tsc")
            .args(["--noEmit", "--strict", "program.ts"])
            .output()
            .unwrap()
            .status
            .success()
    );
}

const TYPESCRIPT_PROGRAM: &str = r#"
import type { components, operations } from "./breakerbox";

type Schemas = components["schemas"];
export const event: Schemas["NewEvent"] = { type: "invoice.paid", payload: { invoice: 7 }, priority: "high" };
export type Accepted = operations["submit_event"]["responses"][202]["content"]["application/json"];
export const accepted = (answer: Accepted): string => `${answer.id} has ${answer.deliveries} deliveries`;
export const states = (page: Schemas["Page_Delivery"]): Schemas["DeliveryState"][] => page.items.map((one) => one.state);
export const next = (page: Schemas["Page_Delivery"]): string | null => page.next;
export const code = (problem: Schemas["Problem"]): string => problem.code;
"#;
