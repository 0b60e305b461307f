//! How much a SQLite database writes to its write-ahead log, seen from outside: the log's index is a file that both
//! sides can read (the `-shm` file, sqlite.org/walformat.html, section "The WAL-Index File Format").
//!
//! The index is sampled. Frames that were written between the last sample and a restart of the log are not seen: with
//! logs of a thousand pages and samples of a few milliseconds about one in a hundred.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use super::figures::LogWritten;

const SAMPLE: Duration = Duration::from_millis(2);
/// Before each page stands a header of this size.
const FRAME_HEADER_BYTES: u64 = 24;
/// The index begins with two copies of a header of this size.
const HEADER_BYTES: usize = 48;

/// Counts until it is stopped.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<LogWritten>>,
}

impl Watch {
    /// Watches the database whose log index is somewhere below `dir`; the largest log, if there are several.
    pub fn begin(dir: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = stop.clone();
            let index = find_index(dir);
            move || count(&File::open(index?).ok()?, &stop)
        });
        Self { stop, thread }
    }

    /// `None`: there is no index to be seen (another locking mode, another system).
    pub fn end(self) -> Option<LogWritten> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().flatten()
    }
}

fn count(index: &File, stop: &AtomicBool) -> Option<LogWritten> {
    let first = steady(index)?;
    let mut before = first;
    let mut frames = 0_u64;
    loop {
        let last = stop.load(Ordering::Relaxed);
        if let Some(now) = steady(index) {
            frames += u64::from(now.frames_since(before));
            before = now;
        }
        if last {
            let bytes = frames * (u64::from(before.page_bytes) + FRAME_HEADER_BYTES);
            return Some(LogWritten {
                bytes,
                commits: u64::from(before.changes.wrapping_sub(first.changes)),
            });
        }
        std::thread::sleep(SAMPLE);
    }
}

/// What the header of the index says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Transactions; wraps.
    changes: u32,
    page_bytes: u32,
    /// Valid frames in the log; starts over when the log does.
    frames: u32,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let u32_at = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        // 1 stands for 65,536, which does not fit.
        let page = u32::from(u16::from_ne_bytes([bytes[14], bytes[15]]));
        Self { changes: u32_at(8), page_bytes: if page == 1 { 65_536 } else { page }, frames: u32_at(16) }
    }

    fn frames_since(self, before: Header) -> u32 {
        self.frames.checked_sub(before.frames).unwrap_or(self.frames)
    }
}

/// The header, once both copies agree: a writer changes them one after the other.
fn steady(index: &File) -> Option<Header> {
    /// A writer needs less than a microsecond for both.
    const TRIES: usize = 100;
    (0..TRIES).find_map(|_| {
        let mut both = [0; 2 * HEADER_BYTES];
        index.read_exact_at(&mut both, 0).ok()?;
        let (first, second) = both.split_first_chunk::<HEADER_BYTES>()?;
        (first == second).then(|| Header::parse(first))
    })
}

fn find_index(dir: &Path) -> Option<PathBuf> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).ok()?.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(base) = path.to_str().and_then(|path| path.strip_suffix("-shm")) {
                let log = std::fs::metadata(format!("{base}-wal")).map_or(0, |log| log.len());
                found.push((log, path));
            }
        }
    }
    found.into_iter().max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::raw_sqlite;

    #[tokio::test]
    async fn what_a_database_writes_is_seen_from_outside() {
        let dir = tempfile::tempdir().expect("temp folder");
        let payload = crate::bench::payload(8);
        let round = raw_sqlite::round(dir.path(), Duration::from_millis(300), &payload).await.expect("runs");
        let log = round.log.expect("the index is there");
        // Five statements per 256 runs of five steps: one row inserted and four, then five steps, in one commit each.
        let commits = round.steps / (raw_sqlite::ROWS as u64);
        assert!(log.commits.abs_diff(commits + commits / 5) <= 2, "{log:?} {round:?}");
        assert!(
            log.bytes > round.steps * 256,
            "each step writes its payload at least once: {log:?} {round:?}"
        );
        assert!(log.bytes < round.steps * 256 * 20, "{log:?} {round:?}");
    }

    #[test]
    fn a_log_that_starts_over_is_counted_on() {
        let at = |frames| Header { changes: 0, page_bytes: 4_096, frames };
        assert_eq!(at(10).frames_since(at(4)), 6);
        assert_eq!(at(3).frames_since(at(900)), 3);
    }

    #[test]
    fn without_a_database_there_is_no_figure() {
        let dir = tempfile::tempdir().expect("temp folder");
        assert_eq!(Watch::begin(dir.path()).end(), None);
    }
}
