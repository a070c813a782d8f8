//! The `breakerbox` command.

fn main() -> std::process::ExitCode {
    breakerbox_gateway::cli::run()
}
