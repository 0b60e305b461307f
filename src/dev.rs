//! `orch8 dev`: control plane and data plane in one process on one folder.

use crate::cli::DevArgs;

/// Serves until interrupted. Errors: the folder is in use or not writable, the address is taken.
pub async fn run(args: DevArgs) -> anyhow::Result<()> {
    anyhow::bail!("no engine is linked into this build (asked for {} in {})", args.listen, args.dir.display())
}
