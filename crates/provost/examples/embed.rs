//! An agent inside your own program: a model that is scripted, everything else real.
//!
//!     cargo run -p provost --example embed

use std::error::Error;
use std::sync::Arc;

use provost::agent::{Interrupt, Order, Runtime};
use provost::core::contract::{Contract, Gate, Source};
use provost::core::event::ModelFact;
use provost::core::path::RelPath;
use provost::core::policy::{Policy, Preset};
use provost::core::transcript::Call;
use provost::journal::SqliteStore;
use provost::model::{Answer, Scripted};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace)?;

    // Any `Provider` will do; `provost::model::Remote` speaks to vendors.
    let write = Call {
        id: "1".to_owned(),
        name: "write_file".to_owned(),
        arguments: r#"{"path": "hello.txt", "content": "hello\n"}"#.to_owned(),
    };
    let provider = Scripted::new([Ok(Answer::calls(vec![write])), Ok(Answer::text("I wrote the file."))]);
    let model = ModelFact::new("scripted", "scripted", "");

    let store = Arc::new(SqliteStore::open(folder.path().join("runs.db"))?);
    let runtime = Runtime::new(store, folder.path().join("spool"), Arc::new(provider), model);

    let contract = Contract::new("Write `hello` into hello.txt.")
        .policy(Policy::preset(Preset::Workspace))
        .gate(Gate::command(["grep", "-qx", "hello", "hello.txt"].map(str::to_owned).to_vec()));
    let source = Source::Directory { commit: None, scope: RelPath::root() };
    let order = Order { contract, workspace, source, repository: None };

    let (run, ending) = runtime.start(order, Interrupt::new()?).await?;
    println!("{run}: {} (exit code {})", ending.word(), ending.exit_code());
    Ok(())
}
