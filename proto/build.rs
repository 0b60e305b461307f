//! Compiles `orch8/v1/*.proto` without a protoc on the machine, and keeps the descriptors for reflection and tests.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir("orch8/v1")?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "proto"));
    files.sort();
    println!("cargo:rerun-if-changed=orch8/v1");

    let descriptors = protox::compile(&files, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("orch8.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
