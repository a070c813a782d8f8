//! README's quick start, word for word: three terminals in a fresh directory, the commands as README shows them, and
//! the output that it promises, in the order and within the times that it promises.
//!
//! Only two things differ from what a reader types: a script stands in for `cargo run --release --`, since the binary
//! is built already; and the ports are free ones, because several tests run at once.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::command::root;

/// The limit for a step that README gives no time for. Tests share the machine with others.
const LONG: Duration = Duration::from_secs(60);

/// A terminal with a shell. The shell and its commands end when it is dropped.
struct Terminal {
    shell: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    /// The part of the screen that was already read.
    read: usize,
}

impl Terminal {
    fn open(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, vec![]).unwrap().into_string().unwrap();
        let line = || File::options().read(true).write(true).open(&name).unwrap();
        let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("setsid");
        command.args(["--ctty", "sh"]).current_dir(folder);
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with("BREAKERBOX_")) {
            command.env_remove(name);
        }
        command.env("PATH", path).env("PS1", "").env("PS2", "").env("NO_COLOR", "1").env_remove("ENV");
        let shell = command
            .envs(variables.iter().copied())
            .stdin(Stdio::from(line()))
            .stdout(Stdio::from(line()))
            .stderr(Stdio::from(line()))
            .spawn()
            .unwrap();
        let keyboard = File::from(keyboard);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut output, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        thread::spawn(move || {
            let mut part = [0; 4096];
            // The read fails when the terminal is closed.
            while let Ok(length @ 1..) = output.read(&mut part) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..length]).replace('\r', ""));
            }
        });
        let mut terminal = Self { shell, keyboard, screen, read: 0 };
        // What is typed is not printed, so that the screen has the output alone.
        terminal.run("stty -echo && echo ready");
        terminal.wait_for("\nready\n", LONG);
        terminal
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn run(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits until the new output contains this string, and returns the new output up to its end.
    #[track_caller]
    fn wait_for(&mut self, part: &str, limit: Duration) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if let Some(at) = screen[self.read..].find(part) {
                let end = self.read + at + part.len();
                let shown = screen[self.read..end].to_owned();
                self.read = end;
                return shown;
            }
            assert!(began.elapsed() < limit, "no {part:?} within {limit:?}:\n{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the next line of `circuits watch`.
    #[track_caller]
    fn change(&mut self) -> String {
        loop {
            let line = self.wait_for("\n", LONG);
            if line.contains(" -> ") {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Runs a command until it ends, and returns its output.
    #[track_caller]
    fn output_of(&mut self, line: &str) -> String {
        self.run(&format!("{line}; echo \"exit code $?\""));
        let shown = self.wait_for("exit code 0\n", LONG);
        shown.trim_end_matches("exit code 0\n").to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The end of a session's leader hangs up the terminal, which ends the command in the foreground.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Returns the blocks of README's quick start, in order.
fn blocks() -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let section =
        readme.split("\n## ").find(|section| section.starts_with("Quick start\n")).unwrap().to_owned();
    section
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').unwrap().1.to_owned())
        .collect()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the shape of a line of `circuits watch`: without the time of day, the spans and the port.
fn shape(line: &str) -> String {
    let words = line.split_whitespace().skip(1).map(|word| {
        let is_span = word.ends_with('s') && word.starts_with(|c: char| c.is_ascii_digit());
        if is_span || word.starts_with("http:/") { "*" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_quick_start_of_the_readme_does_what_it_says_when_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("target/release")).unwrap();
    std::fs::create_dir(folder.join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_breakerbox"), folder.join("target/release/breakerbox")).unwrap();
    let cargo = folder.join("bin/cargo");
    std::fs::write(&cargo, "#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] && shift 3 && exec target/release/breakerbox \"$@\"\n")
        .unwrap();
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).unwrap();
    let (api, receiver) = (free_port(), free_port());
    let (listen, url) = (format!("127.0.0.1:{api}"), format!("http://127.0.0.1:{api}"));
    let with_port = |text: &str| {
        let address = format!("127.0.0.1:{receiver}");
        text.replace("127.0.0.1:8081", &address).replace(" listen ", &format!(" listen --listen {address} "))
    };
    let blocks = blocks();
    let [serve, listening, steps, opened, closed, last_steps, plain, checks] = &blocks[..] else {
        panic!("the quick start has other blocks: {blocks:#?}")
    };
    assert_eq!((plain.as_str(), checks.as_str()), ("cargo run --release -- serve\n", "cargo xtask test\n"));

    // The first terminal: the key, and the next steps, which are README's.
    let mut first = Terminal::open(folder, &[("BREAKERBOX_LISTEN", &listen)]);
    first.run(serve.trim_end());
    let shown = first.wait_for("/docs\n", LONG);
    let key = shown
        .split_whitespace()
        .find(|word| word.starts_with("bbx_"))
        .expect("the key is printed")
        .to_owned();
    assert!(shown.contains("Trial mode (--dev)") && shown.contains("Do not use it in production"), "{shown}");
    assert!(shown.contains(listening.trim_end()), "{shown}");
    let (setting, rest) = steps.split_once('\n').unwrap();
    assert!(setting.starts_with("export BREAKERBOX_API_KEY=bbx_..."), "{setting}");
    for step in rest.lines().filter(|step| !step.starts_with("alias ")) {
        let printed = step.replace("breakerbox ", "target/release/breakerbox ");
        assert!(shown.lines().any(|line| line.trim() == printed), "{printed}\n{shown}");
    }

    // The second terminal: the receiver.
    let mut second = Terminal::open(folder, &[]);
    second.run(with_port(listening.trim_end()).as_str());
    second.wait_for("every request fails until Enter", LONG);

    // The third terminal: the circuit opens, and probes.
    let mut third = Terminal::open(folder, &[("BREAKERBOX_URL", &url)]);
    third.run(&setting.replace("bbx_...", &key));
    for step in rest.lines() {
        third.run(&with_port(step));
    }
    second.wait_for("response 500", LONG);
    let down = Instant::now();
    for expected in opened.lines() {
        let line = third.change();
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(shape(&line), shape(expected), "{line}");
    }

    // It recovers: within half the time that it was down, three probes, and then all the others.
    second.press("\n");
    let was_down = down.elapsed();
    second.wait_for("recovered", LONG);
    let recovered = Instant::now();
    // Other probes may have failed in between.
    let mut changes = vec![];
    while !changes.last().is_some_and(|line: &String| line.contains("-> closed")) {
        changes.push(third.change());
    }
    let closed_after = recovered.elapsed();
    let last: Vec<_> = changes[changes.len().saturating_sub(2)..].iter().map(|line| shape(line)).collect();
    assert_eq!(last, closed.lines().map(shape).collect::<Vec<_>>());
    // The probes themselves take 300 ms each; the rest is for a busy machine.
    let limit = was_down / 2 + Duration::from_secs(1) + Duration::from_secs(10);
    assert!(closed_after < limit, "closed after {closed_after:?}; it was down for {was_down:?}");
    let began = Instant::now();
    while second.screen().matches("response 200").count() < 30 {
        // Five seconds, and ten for a busy machine.
        assert!(began.elapsed() < Duration::from_secs(15), "{}", second.screen());
        thread::sleep(Duration::from_millis(20));
    }
    let arrived: Vec<String> =
        second.screen().lines().filter(|line| line.contains("response 200")).map(String::from).collect();
    assert_eq!(arrived.len(), 30, "each event arrives once");

    // What the other commands show.
    third.press("\u{3}");
    let [deliveries, create, list] = last_steps.lines().collect::<Vec<_>>()[..] else {
        panic!("{last_steps}")
    };
    let listed = loop {
        let listed = third.output_of(deliveries);
        if !listed.contains("in_flight") || began.elapsed() > LONG {
            break listed;
        }
    };
    assert_eq!(listed.lines().filter(|line| line.contains(" delivered ")).count(), 30, "{listed}");
    assert!(listed.lines().all(|line| line.chars().count() <= 100), "{listed}");
    third.output_of(&with_port(create));
    let listed = third.output_of(list);
    assert!(listed.contains("0 9 * * MON-FRI") && listed.contains("active"), "{listed}");
}

#[test]
fn the_readme_is_short() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "{}", readme.lines().count());
}
