//! Seeing what other replicas wrote: three numbers are read again and again, and the rest only when one of them rose.

use std::time::Duration;

use crate::{ControlPlane, app::catch_up};

/// Between two looks at a database that others write to. A key that is revoked on one replica is dead on all of them,
/// and on their nodes, within a second.
const OF_OTHERS: Duration = Duration::from_millis(200);
/// Between two looks at a database that nobody else writes to: the net under a look that failed behind a write.
const OF_OURS: Duration = Duration::from_secs(5);

pub async fn follow_others(plane: ControlPlane) {
    let stopped = plane.fleet.stopped();
    let every = if plane.store.is_shared() { OF_OTHERS } else { OF_OURS };
    let mut answers = true;
    loop {
        tokio::select! {
            () = stopped.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        match catch_up(&plane).await {
            Ok(()) if !answers => {
                answers = true;
                tracing::info!("the control plane's database answers again");
            }
            Err(error) if answers => {
                // Said once: known keys and placements go on meanwhile.
                answers = false;
                let error: &dyn std::error::Error = &error;
                tracing::error!(
                    error,
                    "the control plane's database does not answer; going on with what is known"
                );
            }
            Ok(()) | Err(_) => {}
        }
    }
}
