//! The `breakerbox` command.

fn main() -> std::process::ExitCode {
    breakerbox_cli::run()
}
