//! The bank of the demo: a process of its own that takes each idempotency key once.
//!
//! *What do we store and why must it be durable?* One line per applied refund, synced to disk before it is answered:
//! the answer `applied` is what the demo's verdict rests on, and it survives this process.
//!
//! It speaks lines of JSON over loopback TCP, so that nothing of the engine under test is part of the judge.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::{Mutex, Semaphore},
};

use crate::error::Exit;

/// Name of the file in the demo's folder.
pub const FILE: &str = "ledger.jsonl";
/// A request is about 120 bytes.
const LINE_BYTES_MAX: u64 = 4 << 10;
/// The worker opens one connection per refund in flight.
const CONNECTIONS_MAX: usize = 256;
/// How long the worker waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The hidden process.
#[derive(Debug, Args)]
pub struct LedgerArgs {
    /// Folder of the demo.
    #[arg(long)]
    dir: PathBuf,
}

/// A refund: what is asked for, and once applied a line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Idempotency key.
    pub key: String,
    pub flight: u32,
    /// Cents.
    pub amount: i64,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Applied,
    /// The same key with the same refund had been applied before.
    Already,
    /// The same key with another refund: nothing was done.
    Conflict,
}

/// First line on standard output: where to connect.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listening {
    pub listening: SocketAddr,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    answer: Answer,
}

pub async fn run(args: LedgerArgs) -> anyhow::Result<Exit> {
    let book = Book::open(&args.dir.join(FILE))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let ready = serde_json::to_string(&Listening { listening: listener.local_addr()? })?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{ready}").and_then(|()| stdout.flush())?;
    serve(listener, book).await
}

async fn serve(listener: TcpListener, book: Book) -> anyhow::Result<Exit> {
    let book = Arc::new(Mutex::new(book));
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = room.clone().acquire_owned().await?;
        let (stream, _) = listener.accept().await?;
        let book = book.clone();
        tokio::spawn(async move {
            // A caller that goes away or talks nonsense loses its connection and nothing else.
            if let Err(error) = answer_all(stream, &book).await {
                tracing::debug!(%error, "connection ended");
            }
            drop(permit);
        });
    }
}

async fn answer_all(stream: TcpStream, book: &Mutex<Book>) -> anyhow::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut read).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let entry: Entry = serde_json::from_slice(&line)?;
        let answer = {
            let mut book = book.lock().await;
            // Syncing blocks; the other threads of the runtime go on.
            tokio::task::block_in_place(|| book.apply(entry))?
        };
        let mut reply = serde_json::to_vec(&Reply { answer })?;
        reply.push(b'\n');
        write.write_all(&reply).await?;
    }
}

/// The file, and what it says by key.
#[derive(Debug)]
struct Book {
    file: File,
    applied: HashMap<String, (u32, i64)>,
}

impl Book {
    /// Opens or makes the file. A last line that a crash cut off was never answered: it is cut away.
    fn open(path: &Path) -> anyhow::Result<Self> {
        let (entries, whole_bytes) = read(path)?;
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("opening {}", path.display()))?;
        file.set_len(whole_bytes)?;
        let applied = entries.into_iter().map(|e| (e.key, (e.flight, e.amount))).collect();
        Ok(Self { file, applied })
    }

    fn apply(&mut self, entry: Entry) -> anyhow::Result<Answer> {
        if let Some(applied) = self.applied.get(&entry.key) {
            let same = *applied == (entry.flight, entry.amount);
            return Ok(if same { Answer::Already } else { Answer::Conflict });
        }
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.applied.insert(entry.key, (entry.flight, entry.amount));
        Ok(Answer::Applied)
    }
}

/// Every applied refund, in the order it was applied. No file = none.
pub fn entries(dir: &Path) -> anyhow::Result<Vec<Entry>> {
    Ok(read(&dir.join(FILE))?.0)
}

/// Whole lines, and how many bytes they take.
fn read(path: &Path) -> anyhow::Result<(Vec<Entry>, u64)> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.with_context(|| format!("reading {}", path.display()))?,
    };
    let mut entries = Vec::new();
    let mut whole_bytes = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        let entry = serde_json::from_slice(line)
            .with_context(|| format!("line {} of {}", entries.len() + 1, path.display()))?;
        entries.push(entry);
        whole_bytes += line.len() as u64;
    }
    Ok((entries, whole_bytes))
}

/// Asks the ledger at `address`. An error says nothing about whether it was applied: ask again with the same key.
pub async fn apply(address: SocketAddr, entry: &Entry) -> anyhow::Result<Answer> {
    let exchange = async {
        let mut stream = BufReader::new(TcpStream::connect(address).await?);
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let mut reply = Vec::new();
        (&mut stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut reply).await?;
        let reply: Reply = serde_json::from_slice(&reply)?;
        anyhow::Ok(reply.answer)
    };
    tokio::time::timeout(ANSWER_TIMEOUT, exchange).await.context("the ledger did not answer")?
}

/// A ledger in this process. Abort the task to end it.
#[cfg(test)]
pub async fn for_tests(dir: &Path) -> (SocketAddr, tokio::task::JoinHandle<anyhow::Result<Exit>>) {
    let book = Book::open(&dir.join(FILE)).expect("opens");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let address = listener.local_addr().expect("has an address");
    (address, tokio::spawn(serve(listener, book)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, amount: i64) -> Entry {
        Entry { key: key.to_owned(), flight: 7, amount }
    }

    #[test]
    fn a_key_counts_once_across_restarts_and_a_torn_line_never() {
        let dir = tempfile::tempdir().expect("temp folder");
        let path = dir.path().join(FILE);
        let mut book = Book::open(&path).expect("opens");
        for (entry, answer) in [
            (entry("a", 5), Answer::Applied),
            (entry("a", 5), Answer::Already),
            (entry("a", 6), Answer::Conflict),
            (entry("b", 6), Answer::Applied),
        ] {
            assert_eq!(book.apply(entry.clone()).expect("applies"), answer, "{entry:?}");
        }
        drop(book);
        let mut file = OpenOptions::new().append(true).open(&path).expect("opens");
        file.write_all(br#"{"key":"c","fli"#).expect("tears");
        drop(file);

        let mut book = Book::open(&path).expect("opens again");
        assert_eq!(book.apply(entry("b", 6)).expect("applies"), Answer::Already);
        assert_eq!(book.apply(entry("c", 9)).expect("applies"), Answer::Applied);
        assert_eq!(entries(dir.path()).expect("reads"), [entry("a", 5), entry("b", 6), entry("c", 9)]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_at_once_with_one_key_apply_once_and_nonsense_harms_nobody() {
        let dir = tempfile::tempdir().expect("temp folder");
        let (address, server) = for_tests(dir.path()).await;

        let mut rude = TcpStream::connect(address).await.expect("connects");
        rude.write_all(&[b'x'; 9_000]).await.expect("writes");
        let calls = (0..32).map(|_| async move { apply(address, &entry("k", 1)).await.expect("answers") });
        let answers = futures::future::join_all(calls).await;
        assert_eq!(answers.iter().filter(|answer| **answer == Answer::Applied).count(), 1);
        assert_eq!(answers.iter().filter(|answer| **answer == Answer::Already).count(), 31);
        assert_eq!(entries(dir.path()).expect("reads").len(), 1);
        server.abort();
    }
}
