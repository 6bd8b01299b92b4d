//! The command line of Provost: reads the world (arguments, environment, terminal, home), hands it to the library,
//! prints what comes back. Exit codes are the table in the README.

mod args;
mod commands;
mod failure;
mod render;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::Args::typed(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            // Help and version are not errors; the parser knows which stream each belongs on.
            let code = u8::from(error.use_stderr()) * 2;
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let ended = match (commands::dispatch(args), render::lost()) {
        (Ok(0), Some(why)) => Err(failure::Failure::internal(format!("standard output: {why}"))),
        (ended, _) => ended,
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code())
        }
    }
}
