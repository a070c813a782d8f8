//! Settings: their sources, which one takes precedence, and the errors for invalid ones.

use std::path::Path;
use std::time::Duration;

use breakerbox_core::POLICY_KEYS;
use breakerbox_gateway::config::{
    Config, Loaded, LogFormat, Origin, SETTINGS, Sources, example, policy_form, reference,
};

use crate::command::root;
use crate::program::Program;

/// Loads settings from a file with this content.
fn from_file(text: &str) -> Result<Loaded, String> {
    from_file_and(Sources::default(), text)
}

/// Loads settings from a file with this content and from other sources.
fn from_file_and(said: Sources, text: &str) -> Result<Loaded, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("breakerbox.toml"), text).unwrap();
    let loaded = said.file_if_in(folder.path()).load();
    // The directory has another name in each run.
    loaded.map_err(|errors| errors.to_string().replace(&format!("{}/", folder.path().display()), ""))
}

/// For each setting, a value other than the default: the key, the value as TOML, and the value for a variable or flag.
const OTHERS: &[(&str, &str, &str)] = &[
    ("listen", "\"[::1]:9090\"", "[::1]:9090"),
    ("data", "\"/var/lib/breakerbox\"", "/var/lib/breakerbox"),
    ("grace", "\"1m\"", "1m"),
    ("dev", "true", "true"),
    ("delivery.timeout", "\"250ms\"", "250ms"),
    ("delivery.slots", "1_024", "1024"),
    ("delivery.max_in_flight", "0x10", "16"),
    ("delivery.lease_margin", "\"10s\"", "10s"),
    ("delivery.retry", "[\"1s\", \"1m\"]", "1s,1m"),
    ("delivery.throttle", "false", "false"),
    ("delivery.expires_after", "\"3d\"", "3d"),
    ("delivery.response_kept", "\"0B\"", "0B"),
    ("delivery.response_read", "\"1MiB\"", "1MiB"),
    ("limits.payload", "\"1MB\"", "1MB"),
    ("limits.batch_events", "10", "10"),
    ("limits.batch_bytes", "\"16MiB\"", "16MiB"),
    ("limits.body_memory", "\"1GiB\"", "1GiB"),
    ("limits.body_timeout", "\"5s\"", "5s"),
    ("limits.tenant_share", "50", "50"),
    ("limits.first_request_timeout", "\"500ms\"", "500ms"),
    ("limits.header_timeout", "\"5s\"", "5s"),
    ("limits.connections", "100", "100"),
    ("limits.address_share", "100", "100"),
    ("limits.auth_failures", "5", "5"),
    ("limits.backlog_count", "10_000_000_000", "10000000000"),
    ("limits.backlog_bytes", "\"1TiB\"", "1TiB"),
    ("limits.endpoints", "100", "100"),
    ("limits.disk_reserve", "\"1GiB\"", "1GiB"),
    ("retention.finished", "\"1d\"", "1d"),
    ("retention.failed", "\"60d\"", "60d"),
    ("retention.history", "\"1h\"", "1h"),
    ("retention.notifications", "\"1d\"", "1d"),
    ("egress.allow", "[\"127.0.0.0/8\", \"::1\"]", "127.0.0.0/8, ::1"),
    ("egress.deny", "[\"93.184.215.0/24\", \"2a00:64::/96\"]", "93.184.215.0/24,2a00:64::/96"),
    ("egress.proxy", "\"http://proxy.internal:3128\"", "http://proxy.internal:3128"),
    ("egress.ca_files", "[\"a.pem\", \"b.pem\"]", "a.pem,b.pem"),
    ("secrets.master_key_file", "\"/etc/breakerbox/key\"", "/etc/breakerbox/key"),
    ("secrets.initial_admin_key_file", "\"/etc/breakerbox/admin\"", "/etc/breakerbox/admin"),
    ("secrets.admin_key_file", "\"/run/breakerbox/admin\"", "/run/breakerbox/admin"),
    ("secrets.print_admin_key", "true", "true"),
    ("circuits.max", "1000", "1000"),
    ("circuits.tenant_max", "100", "100"),
    ("circuits.tenant_bytes", "\"16MiB\"", "16MiB"),
    ("permits.max", "1000", "1000"),
    ("permits.timeout", "\"5s\"", "5s"),
    ("notify.webhook_url", "\"https://ops.example.com/in\"", "https://ops.example.com/in"),
    ("notify.email", "[\"a@example.com\", \"b@example.com\"]", "a@example.com,b@example.com"),
    ("notify.smtp_url", "\"smtps://user@mail.example.com\"", "smtps://user@mail.example.com"),
    ("notify.smtp_from", "\"Box <box@example.com>\"", "Box <box@example.com>"),
    ("notify.kinds", "[\"trip\", \"store_lost\"]", "trip,store_lost"),
    ("notify.after", "\"5m\"", "5m"),
    ("notify.burst", "9", "9"),
    ("notify.interval", "\"10s\"", "10s"),
    ("notify.dead_letters", "\"off\"", "off"),
    ("log.level", "\"warn,breakerbox=debug\"", "warn,breakerbox=debug"),
    ("log.format", "\"json\"", "json"),
    ("metrics.public", "true", "true"),
];

/// Returns the environment variables, with values, that must also be set for this setting to be valid.
fn needed_by(key: &str) -> &'static [(&'static str, &'static str)] {
    const SECRET: (&str, &str) =
        ("BREAKERBOX_NOTIFY_WEBHOOK_SECRET", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    const SERVER: (&str, &str) = ("BREAKERBOX_NOTIFY_SMTP_URL", "smtp://mail.example.com");
    const FROM: (&str, &str) = ("BREAKERBOX_NOTIFY_SMTP_FROM", "other@example.com");
    match key {
        "notify.webhook_url" => &[SECRET],
        "notify.email" => &[SERVER, FROM],
        "notify.smtp_url" => &[FROM],
        _ => &[],
    }
}

#[test]
fn targets_of_notifications_must_be_whole() {
    let variable = |name: &str| format!("BREAKERBOX_NOTIFY_{name}");
    let table = [
        ("WEBHOOK_URL", "https://a.example/", "needs a signing secret"),
        ("WEBHOOK_URL", "https://user:hunter2@a.example/", "is not a URL that begins with http"),
        ("WEBHOOK_SECRET", "hunter2", "must be `whsec_`"),
        ("SLACK_URL", "ftp://a.example/hunter2", "must begin with http"),
        ("EMAIL", "a@example.com", "needs a mail server"),
        ("EMAIL", "nobody", "is not an address"),
        ("SMTP_URL", "smtp://mail.example.com", "needs a sender"),
        ("SMTP_URL", "http://mail.example.com", "is not the URL of a mail server"),
        ("KINDS", "trips", "is not a notification type"),
    ];
    for (name, value, why) in table {
        let errors = Sources::default().variables([(variable(name), value)]).load().unwrap_err().to_string();
        assert!(errors.starts_with(&variable(name)) && errors.contains(why), "{errors}");
        if ["WEBHOOK_SECRET", "SLACK_URL"].contains(&name) {
            assert!(!errors.contains("hunter2"), "{errors}");
        }
    }
    let by_file = from_file("notify.slack_url = \"https://a.example/\"").unwrap_err();
    assert!(by_file.contains("BREAKERBOX_NOTIFY_SLACK_URL"), "{by_file}");
}

#[test]
fn every_setting_can_be_said_in_the_file_in_a_variable_and_by_a_flag() {
    let mut tried: Vec<&str> =
        SETTINGS.iter().filter(|setting| setting.secret).map(|setting| setting.key).collect();
    assert_eq!(tried.len(), 5, "{tried:?}");
    for (key, toml, words) in OTHERS {
        let setting = SETTINGS.iter().find(|setting| setting.key == *key).unwrap();
        let others = || Sources::default().variables(needed_by(key).iter().copied());
        let by_file = from_file_and(others(), &format!("{key} = {toml}")).unwrap();
        let by_variable = others().variables([(setting.variable(), *words)]).load().unwrap();
        let by_flag = others().flag(setting.flag().unwrap(), [*words]).load().unwrap();
        assert_ne!(by_file.config, Config::default(), "{key}");
        assert_eq!(by_variable.config, by_file.config, "{key}");
        assert_eq!(by_flag.config, by_file.config, "{key}");
        assert!(matches!(by_file.origin(key), Origin::File { line: 1, .. }), "{key}");
        assert_eq!(by_variable.origin(key), &Origin::Environment(setting.variable()));
        assert_eq!(by_flag.origin(key), &Origin::Flag(setting.flag().unwrap()));
        tried.push(key);
    }
    let mut all: Vec<_> = SETTINGS.iter().map(|setting| setting.key).collect();
    all.sort_unstable();
    tried.sort_unstable();
    assert_eq!(tried, all, "a new setting needs a line in the table");
}

#[test]
fn a_flag_wins_over_a_variable_and_a_variable_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("its.toml");
    std::fs::write(&path, "grace = '1s'\n[delivery]\nslots = 1\ntimeout = '1s'\n[policy]\nprobes = 4")
        .unwrap();
    let loaded = Sources::default()
        .file(&path)
        .variables([("BREAKERBOX_DELIVERY_SLOTS", "2"), ("BREAKERBOX_DELIVERY_TIMEOUT", "2s"), ("HOME", "/")])
        .variables([("BREAKERBOX_POLICY_PROBES", "5"), ("BREAKERBOX_GRACE", "")])
        .flag("--delivery-timeout", ["3s", "4s"])
        .flag("--policy-window", ["2m"])
        .load()
        .unwrap();
    let config = &loaded.config;
    assert_eq!(config.grace, Duration::from_secs(1), "an empty variable says nothing");
    assert_eq!(config.delivery.slots, 2);
    assert_eq!(config.delivery.timeout, Duration::from_secs(4), "the last flag");
    let policy = config.policy.build(config.delivery.timeout).unwrap();
    assert_eq!((policy.probes(), policy.window().as_secs()), (5, 120));
    assert_eq!(loaded.origin("grace"), &Origin::File { path, line: 1 });
    assert_eq!(loaded.origin("listen"), &Origin::Default);
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_line_and_what_would_be_right() {
    for (text, expected) in [
        ("\n\nlistn = ':80'", "breakerbox.toml: line 3: listn: is not a setting; did you mean listen?"),
        (
            "[delivery]\ntimout = '1s'",
            "breakerbox.toml: line 2: delivery.timout: is not a setting; did you mean delivery.timeout?",
        ),
        (
            "timeout = '1s'",
            "breakerbox.toml: line 1: timeout: is not a setting; did you mean delivery.timeout?",
        ),
        (
            "colour = 1",
            "breakerbox.toml: line 1: colour: is not a setting; `breakerbox serve --example-config` lists them all",
        ),
        (
            "[delivry]\nslots = 1",
            "breakerbox.toml: line 1: delivry: is not a setting; did you mean [delivery]?",
        ),
        ("delivery = 1", "breakerbox.toml: line 1: delivery: must be a table, [delivery], but is integer"),
        (
            "grace = 30",
            "breakerbox.toml: line 1: grace: \"30\" needs a unit; write \"30s\" for 30 seconds, or use the unit ms, m, h or d",
        ),
        (
            "grace = '30'",
            "breakerbox.toml: line 1: grace: \"30\" needs a unit; write \"30s\" for 30 seconds, or use the unit ms, m, h or d",
        ),
        ("grace = '2h'", "breakerbox.toml: line 1: grace: must be 0s to 1h, but is 2h"),
        ("[delivery]\nslots = 0", "breakerbox.toml: line 2: delivery.slots: must be 1 to 100000, but is 0"),
        (
            "[delivery]\nslots = '5'",
            "breakerbox.toml: line 2: delivery.slots: must be a whole number, 1 to 100000, but is the string \"5\"",
        ),
        (
            "[delivery]\nslots = 1.5",
            "breakerbox.toml: line 2: delivery.slots: must be a whole number, 1 to 100000, but is 1.5",
        ),
        (
            "[delivery]\nthrottle = 'on'",
            "breakerbox.toml: line 2: delivery.throttle: must be true or false, but is the string \"on\"",
        ),
        (
            "[delivery]\nretry = '5s'",
            "breakerbox.toml: line 2: delivery.retry: must be a list, each item a duration such as \"30s\", 10ms to 30d, but is the string \"5s\"",
        ),
        (
            "[delivery]\nretry = ['5s', '0s']",
            "breakerbox.toml: line 2: delivery.retry: item 2: must be 10ms to 30d, but is 0s",
        ),
        (
            "[limits]\npayload = '256K'",
            "breakerbox.toml: line 2: limits.payload: \"256K\" has an unknown unit; the units are B, KiB, MiB, GiB, TiB (and KB, MB, GB, TB by thousands), such as \"256KiB\"",
        ),
        (
            "[limits]\npayload = '16MiB'",
            "breakerbox.toml: line 2: limits.payload: must be at most limits.batch_bytes (4MiB), but is 16MiB",
        ),
        (
            "[limits]\nbatch_bytes = '1KiB'",
            "breakerbox.toml: line 2: limits.batch_bytes: must be at least limits.payload (256KiB), but is 1KiB",
        ),
        (
            "listen = '8080'",
            "breakerbox.toml: line 1: listen: \"8080\" is not an address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"",
        ),
        (
            "egress.allow = ['10.1.2.3/8']",
            "breakerbox.toml: line 1: egress.allow: item 1: \"10.1.2.3/8\" is not a network such as \"10.0.0.0/8\" (with no bits set after its prefix) or an address",
        ),
        (
            "egress.proxy = 'https://x:1'",
            "breakerbox.toml: line 1: egress.proxy: \"https://x:1\" is not the URL of an HTTP proxy, such as \"http://proxy.internal:3128\", or \"off\"",
        ),
        (
            "egress.proxy = 'socks5://x:1'",
            "breakerbox.toml: line 1: egress.proxy: \"socks5://x:1\" is not the URL of an HTTP proxy, such as \"http://proxy.internal:3128\", or \"off\"",
        ),
        (
            "[secrets]\nmaster_key = 'abc'",
            "breakerbox.toml: line 2: secrets.master_key: is a secret; set the environment variable BREAKERBOX_MASTER_KEY instead",
        ),
        ("[log]\nformat = 'xml'", "breakerbox.toml: line 2: log.format: \"xml\" is not \"text\" or \"json\""),
        (
            "[policy]\nwindw = '1m'",
            "breakerbox.toml: line 2: policy.windw: is not a setting; did you mean policy.window?",
        ),
        (
            "[policy]\nwindow = 5",
            "breakerbox.toml: line 2: policy.window: \"5\" needs a unit; write \"5s\" for 5 seconds, or use the unit ms, m, h or d",
        ),
        (
            "[policy]\n\nfailure_rate = 150",
            "breakerbox.toml: line 3: policy.failure_rate: must be 1 to 100, but is 150",
        ),
        (
            "grace = ",
            "breakerbox.toml: line 1: string values must be quoted, expected literal string: grace =",
        ),
    ] {
        assert_eq!(from_file(text).unwrap_err(), expected, "{text}");
    }
    let both = from_file("grace = 1\nlisten = 2").unwrap_err();
    assert_eq!(both.lines().count(), 2, "everything wrong is said at once: {both}");
}

#[test]
fn what_is_wrong_in_a_variable_or_a_flag_is_said_with_its_name() {
    for (name, value, expected) in [
        (
            "BREAKERBOX_GRACE",
            "soon",
            "BREAKERBOX_GRACE: \"soon\" needs a whole number before each unit, such as \"30s\", \"5m\" or \"250ms\"",
        ),
        (
            "BREAKERBOX_DELIVERY_SLOTS",
            "many",
            "BREAKERBOX_DELIVERY_SLOTS: must be a whole number, 1 to 100000, but is \"many\"",
        ),
        (
            "BREAKERBOX_DELIVERY_SLOT",
            "5",
            "BREAKERBOX_DELIVERY_SLOT: is not a setting; did you mean BREAKERBOX_DELIVERY_SLOTS?",
        ),
        ("BREAKERBOX_POLICY_JITTER", "101", "BREAKERBOX_POLICY_JITTER: must be 0 to 100, but is 101"),
        (
            "--delivery-retry",
            "5s,,x",
            "--delivery-retry: item 2: \"x\" needs a whole number before each unit, such as \"30s\", \"5m\" or \"250ms\"",
        ),
        (
            "--policy-preset",
            "convoi",
            "--policy-preset: \"convoi\" is not a preset; did you mean convoy? (presets: convoy, reminders, redis_lua, stoplight)",
        ),
    ] {
        let sources = Sources::default();
        let sources = if name.starts_with("--") {
            sources.flag(name, [value])
        } else {
            sources.variables([(name, value)])
        };
        assert_eq!(sources.load().unwrap_err().to_string(), expected);
    }
}

#[test]
fn variables_of_others_are_no_errors() {
    let of_kubernetes = [
        "BREAKERBOX_SERVICE_HOST",
        "BREAKERBOX_SERVICE_PORT",
        "BREAKERBOX_PORT",
        "BREAKERBOX_PORT_8080_TCP_ADDR",
    ];
    let ours = ["BREAKERBOX_URL", "BREAKERBOX_API_KEY", "BREAKERBOX_CONFIG"];
    let loaded =
        Sources::default().variables(of_kubernetes.iter().chain(&ours).map(|name| (*name, "x"))).load();
    assert_eq!(loaded.unwrap().unknown_variables, of_kubernetes);
}

#[test]
fn a_file_that_was_named_must_be_there_and_be_text() {
    let errors = Sources::default().file("/nowhere/its.toml").load().unwrap_err().to_string();
    assert_eq!(errors, "/nowhere/its.toml: can't be read: No such file or directory (os error 2)");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("its.toml");
    for (bytes, expected) in
        [(vec![0xff], "it is not UTF-8"), (vec![b'#'; 2 << 20], "it is larger than 1 MiB")]
    {
        std::fs::write(&path, bytes).unwrap();
        let errors = Sources::default().file(&path).load().unwrap_err().to_string();
        assert!(errors.contains(expected), "{errors}");
    }
}

/// Prints the settings, and loads the printed text as a configuration file.
#[track_caller]
fn printed_again(loaded: &Loaded) -> Loaded {
    let printed = loaded.to_toml();
    // Secrets are not printed, so they are set again.
    let secrets = Sources::default().variables(needed_by("notify.webhook_url").iter().copied());
    from_file_and(secrets, &printed).unwrap_or_else(|error| panic!("{error}\n{printed}"))
}

#[test]
fn what_is_printed_can_be_read_again() {
    let with_secret = || Sources::default().variables(needed_by("notify.webhook_url").iter().copied());
    let everything = OTHERS.iter().fold(with_secret(), |sources, (key, _, words)| {
        let setting = SETTINGS.iter().find(|setting| setting.key == *key).unwrap();
        sources.flag(setting.flag().unwrap(), [*words])
    });
    let odd = with_secret().flag("--data", ["a \"b\"\\\n\u{7f}é"]).flag("--policy-preset", ["redis_lua"]);
    for sources in [with_secret(), everything, odd] {
        let loaded = sources.load().unwrap();
        let again = printed_again(&loaded);
        let policy = |loaded: &Loaded, secs| loaded.config.policy.build(Duration::from_secs(secs)).unwrap();
        assert_eq!(policy(&again, 1), policy(&loaded, 1));
        assert_eq!(policy(&again, 60), policy(&loaded, 60), "a probe still follows the endpoint's timeout");
        let config = Config { policy: loaded.config.policy.clone(), ..again.config };
        assert_eq!(config, loaded.config);
    }
}

#[test]
fn secrets_are_not_printed() {
    let loaded = Sources::default()
        .variables([
            ("BREAKERBOX_MASTER_KEY", "hunter2"),
            ("BREAKERBOX_EGRESS_PROXY", "http://me:hunter2@p:1"),
            ("BREAKERBOX_NOTIFY_SLACK_URL", "https://a.example/hunter2"),
            ("BREAKERBOX_NOTIFY_SMTP_PASSWORD", "hunter2"),
        ])
        .load()
        .unwrap();
    assert_eq!(loaded.config.secrets.master_key.as_ref().unwrap().reveal(), "hunter2");
    let printed = loaded.to_toml();
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(printed.contains("# master_key = (hidden)"), "{printed}");
    assert!(!format!("{:?}", loaded.config.secrets).contains("hunter2"));
    printed_again(&loaded);
}

#[test]
fn the_example_file_has_every_setting_with_its_default() {
    let path = root().join("breakerbox.example.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text,
        example(),
        "write it again: breakerbox serve --example-config > breakerbox.example.toml"
    );
    assert_eq!(from_file(&text).unwrap().config, Config::default(), "as it is, it says nothing");

    let is_setting = |line: &str| line.starts_with('#') && !line.starts_with("# ");
    let uncommented: Vec<&str> =
        text.lines().map(|line| if is_setting(line) { &line[1..] } else { line }).collect();
    let loaded = from_file(&uncommented.join("\n")).unwrap();
    let timeout = loaded.config.delivery.timeout;
    let defaults = Config::default();
    assert_eq!(loaded.config.policy.build(timeout), defaults.policy.build(timeout));
    assert_eq!(Config { policy: defaults.policy.clone(), ..loaded.config.clone() }, defaults);
    let policy = POLICY_KEYS.iter().filter(|key| **key != "preset").map(|key| format!("policy.{key}"));
    let settings = SETTINGS.iter().filter(|setting| !setting.secret).map(|setting| setting.key.to_owned());
    for key in settings.chain(policy) {
        assert!(matches!(loaded.origin(&key), Origin::File { .. }), "{key} is not in the example");
    }
}

#[test]
fn the_documentation_has_every_setting() {
    let page = std::fs::read_to_string(root().join("docs/operating/configuration.md")).unwrap();
    assert!(
        page.contains(&reference()),
        "docs/operating/configuration.md must have this table:\n{}",
        reference()
    );
}

#[test]
fn derived_settings_have_their_documented_defaults() {
    let config = Config::default();
    assert_eq!(config.lease(config.delivery.timeout), Duration::from_secs(45));
    assert_eq!(config.master_key_file(), Path::new("breakerbox-data/keys/master.key"));
    assert_eq!(config.log.format, LogFormat::Text);
}

#[test]
fn serve_prints_its_settings_with_the_origin_of_each() {
    let program = Program::new(&["serve", "--print-config", "--allow", "127.0.0.0/8", "--allow", "::1"]);
    let ended = program
        .args(&["--metrics-public", "--delivery-throttle=false"])
        .env("BREAKERBOX_DELIVERY_TIMEOUT", "20s")
        .file("breakerbox.toml", "data = 'here'")
        .run();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for line in [
        "data = \"here\"                            # breakerbox.toml: line 1",
        "timeout = \"20s\"                          # BREAKERBOX_DELIVERY_TIMEOUT",
        "throttle = false                         # --delivery-throttle",
        "allow = [\"127.0.0.0/8\", \"::1/128\"]       # --allow",
        "public = true                            # --metrics-public",
        "slots = 512                              # default",
        "# probe_timeout = \"22s\"                  # default: the endpoint's timeout plus 2s",
    ] {
        assert!(ended.stdout.lines().any(|found| found == line), "{line}\n{}", ended.stdout);
    }
}

#[test]
fn trial_mode_allows_loopback_and_nothing_else() {
    let networks =
        |loaded: &Loaded| loaded.config.egress.allow.iter().map(ToString::to_string).collect::<Vec<_>>();
    let trial = Sources::default().flag("--dev", ["true"]).load().unwrap();
    assert_eq!(networks(&trial), ["127.0.0.0/8", "::1/128"]);
    assert_eq!(trial.origin("egress.allow"), &Origin::Flag("--dev".into()));
    let both = Sources::default()
        .flag("--dev", ["true"])
        .flag("--allow", ["10.0.0.0/8,127.0.0.0/8"])
        .load()
        .unwrap();
    assert_eq!(networks(&both), ["10.0.0.0/8", "127.0.0.0/8", "::1/128"]);
    assert_eq!(both.origin("egress.allow"), &Origin::Flag("--allow".into()));
    let off = Sources::default().flag("--dev", ["false"]).load().unwrap();
    assert_eq!(off.config, Config::default());
}

#[test]
fn serve_help_has_the_default_and_the_form_of_each_setting() {
    let help = Program::new(&["serve", "--help"]).run().stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in SETTINGS.iter().filter(|setting| !setting.secret) {
        let expected = format!("Accepts {} [default: {}]", setting.expects(), setting.default_value());
        assert!(
            help.contains(&setting.flag().unwrap()) && help.contains(&expected),
            "{}: {expected}",
            setting.key
        );
    }
    for key in POLICY_KEYS {
        let (flag, form) = (format!("--policy-{} <", key.replace('_', "-")), policy_form(key));
        let text = help.split(&flag).nth(1).unwrap_or_else(|| panic!("{key}"));
        assert!(
            text.split("[default: ").next().unwrap().contains(&format!("Accepts {form}")),
            "{key}: {form}"
        );
    }
}

#[test]
fn serve_refuses_wrong_settings_with_exit_code_2() {
    let ended = Program::new(&["serve", "--print-config", "--grace", "x", "--delivery-slots", "0"])
        .env("BREAKERBOX_CONFIG", "named.toml")
        .file("named.toml", "x = 1")
        .run();
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("breakerbox: named.toml: line 1: x: is not a setting"), "{lines:?}");
    let example = Program::new(&["serve", "--example-config"]).run();
    assert_eq!((example.code, example.stdout), (0, breakerbox_gateway::config::example()));
}
