//! One shell command as one try of one step: JSON on its standard input, JSON from its standard output.
//!
//! Knows processes and nothing of sessions. What a command may do to this process is bounded: its output, its error
//! text, and, once it is told to stop, its life and that of everything it started.

use std::{collections::BTreeMap, os::unix::process::ExitStatusExt, process::Stdio, time::Duration};

use bytes::Bytes;
use orch8_model::limits::{ERROR_MESSAGE_BYTES_MAX, OUTPUT_BYTES_MAX};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::IgnoredAny;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
};
use tokio_util::sync::CancellationToken;

/// `EX_TEMPFAIL` of sysexits.h: try again later.
pub const EXIT_RETRYABLE: i32 = 75;
/// What is kept of standard error: its end, where the reason stands.
const STDERR_TAIL_BYTES: usize = ERROR_MESSAGE_BYTES_MAX - 256;
/// After the command has ended, whoever inherited its standard output may hold it open: nobody waits longer for them.
const PIPE_GRACE: Duration = Duration::from_secs(2);

/// How a try ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// Exit 0, and this JSON text was on standard output (nothing = null). Its digits are as the command wrote them.
    Completed(Bytes),
    /// Another try may help.
    Retryable { code: &'static str, message: String },
    /// Another try would end the same way.
    Permanent { code: &'static str, message: String },
    /// It was told to stop, and did: nothing to report.
    Stopped,
}

/// Runs `command` with `sh -c`, with the JSON text `input` on its standard input and `env` beside the inherited environment (without
/// this process's own credentials). Ends it, with everything in its process group, when `stop` fires.
pub async fn run(
    command: &str,
    input: &[u8],
    env: &BTreeMap<&str, String>,
    stop: &CancellationToken,
) -> Ended {
    let spawned = Command::new("sh")
        .arg("-c")
        .arg(command)
        .env_remove("ORCH8_KEY")
        .env_remove("ORCH8_KEY_FILE")
        .envs(env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            return Ended::Retryable { code: "EXEC", message: format!("cannot start sh: {error}") };
        }
    };
    // Dropping this (the try was abandoned) takes the whole group along, as stopping does.
    let group = Group::of(&child);
    let talk = talk(&mut child, input);
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => Ended::Stopped,
        ended = talk => ended,
    };
    if ended == Ended::Stopped {
        drop(group);
        let _status_of_the_killed = child.wait().await;
    } else {
        // It ended by itself. What it left in the background is its own affair, and its group's number may be anybody's.
        group.spare();
    }
    ended
}

/// The process group of a command. Whatever of it still runs is killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn spare(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error means that nobody of the group is left.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn talk(child: &mut Child, input: &[u8]) -> Ended {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input closes the pipe; that is its right.
            let _closed = stdin.write_all(input).await;
        }
    };
    let mut output = Vec::new();
    let mut errors = Tail::default();
    let status = {
        let read = async {
            tokio::join!(write, read_bounded(stdout, &mut output), errors.read(stderr));
        };
        tokio::pin!(read);
        tokio::select! {
            // All pipes closed: it has ended, or will soon.
            () = &mut read => child.wait().await,
            status = child.wait() => {
                let _held_open_by_others = tokio::time::timeout(PIPE_GRACE, &mut read).await;
                status
            }
        }
    };
    match status {
        Err(error) => {
            Ended::Retryable { code: "EXEC", message: format!("lost sight of the command: {error}") }
        }
        Ok(status) => judge(status.code(), status.signal(), output, &errors.text()),
    }
}

/// What an exit means. `code` is absent when a signal ended the command.
fn judge(code: Option<i32>, signal: Option<i32>, output: Vec<u8>, errors: &str) -> Ended {
    let explained = |what: String| if errors.is_empty() { what } else { format!("{what}: {errors}") };
    match code {
        Some(0) => parse(output),
        Some(EXIT_RETRYABLE) => Ended::Retryable {
            code: "EXIT_75",
            message: explained("the command asked for another try".into()),
        },
        Some(other) => Ended::Permanent {
            code: "EXIT",
            message: explained(format!("the command ended with exit code {other}")),
        },
        // The command did not decide this: the kernel ran out of memory, or somebody stopped the machine.
        None => Ended::Retryable {
            code: "SIGNAL",
            message: explained(format!("the command was ended by signal {}", signal.unwrap_or_default())),
        },
    }
}

fn parse(output: Vec<u8>) -> Ended {
    if output.len() > OUTPUT_BYTES_MAX {
        let message = format!("the command answered more than {OUTPUT_BYTES_MAX} bytes");
        return Ended::Permanent { code: "OUTPUT_TOO_LARGE", message };
    }
    if output.iter().all(u8::is_ascii_whitespace) {
        return Ended::Completed(Bytes::from_static(b"null"));
    }
    match serde_json::from_slice::<IgnoredAny>(&output) {
        Ok(IgnoredAny) => Ended::Completed(output.into()),
        Err(error) => Ended::Permanent {
            code: "INVALID_OUTPUT",
            message: format!("what the command wrote to standard output is not JSON: {error}"),
        },
    }
}

/// Reads to the end and keeps one byte more than is allowed, so that "too large" can be told. The rest is read and
/// dropped: a command that blocks on a full pipe would never end.
async fn read_bounded(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut chunk = [0; 8 << 10];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        let room = (OUTPUT_BYTES_MAX + 1).saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..read.min(room)]);
    }
}

/// The end of a stream.
#[derive(Default)]
struct Tail {
    kept: Vec<u8>,
    cut: bool,
}

impl Tail {
    async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut chunk = [0; 4 << 10];
        while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
            self.kept.extend_from_slice(&chunk[..read]);
            let extra = self.kept.len().saturating_sub(STDERR_TAIL_BYTES);
            self.cut |= extra > 0;
            self.kept.drain(..extra);
        }
    }

    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        // A cut may have split a character.
        let text = text.trim_start_matches(char::REPLACEMENT_CHARACTER).trim();
        if self.cut { format!("…{text}") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// More digits than a float holds.
    const INPUT: &str = r#"{"n": 9007199254740993, "f": 1.0}"#;

    async fn ended(command: &str) -> Ended {
        let env = BTreeMap::from([("ORCH8_ATTEMPT", "2".to_owned())]);
        run(command, INPUT.as_bytes(), &env, &CancellationToken::new()).await
    }

    fn completed(text: &str) -> Ended {
        Ended::Completed(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[tokio::test]
    async fn exit_codes_decide_what_becomes_of_the_step() {
        let permanent = |code, message: &str| Ended::Permanent { code, message: message.to_owned() };
        let retryable = |code, message: &str| Ended::Retryable { code, message: message.to_owned() };
        for (command, expected) in [
            ("cat", completed(INPUT)),
            ("true", completed("null")),
            ("echo $ORCH8_ATTEMPT", completed("2\n")),
            ("echo no funds >&2; exit 3", permanent("EXIT", "the command ended with exit code 3: no funds")),
            ("exit 1", permanent("EXIT", "the command ended with exit code 1")),
            ("echo busy >&2; exit 75", retryable("EXIT_75", "the command asked for another try: busy")),
            ("kill -9 $$", retryable("SIGNAL", "the command was ended by signal 9")),
            ("no-such-command 2>/dev/null", permanent("EXIT", "the command ended with exit code 127")),
        ] {
            assert_eq!(ended(command).await, expected, "{command}");
        }
    }

    #[tokio::test]
    async fn output_that_is_no_json_fails_for_good() {
        for command in ["echo hello", "printf '{'", "echo '{} {}'", "printf '\\377'"] {
            let ended = ended(command).await;
            assert!(matches!(ended, Ended::Permanent { code: "INVALID_OUTPUT", .. }), "{command}: {ended:?}");
        }
    }

    #[tokio::test]
    async fn output_beyond_the_limit_is_neither_kept_nor_waited_for() {
        let ended = ended("head -c 9000000 /dev/zero").await;
        assert!(matches!(ended, Ended::Permanent { code: "OUTPUT_TOO_LARGE", .. }), "{ended:?}");
    }

    #[tokio::test]
    async fn of_long_error_text_the_end_is_kept() {
        let Ended::Permanent { message, .. } =
            ended("head -c 100000 /dev/zero | tr '\\0' x >&2; echo END >&2; exit 1").await
        else {
            panic!("exit 1 is permanent")
        };
        assert!(message.ends_with("xEND") || message.ends_with("END"), "{message}");
        assert!(message.len() <= ERROR_MESSAGE_BYTES_MAX, "{}", message.len());
    }

    #[tokio::test]
    async fn stopping_takes_the_whole_family_along() {
        let dir = tempfile::tempdir().expect("temp folder");
        let mark = dir.path().join("mark");
        let command = format!("(sleep 1; touch {}) & sleep 60", mark.display());
        let stop = CancellationToken::new();
        let begun = Instant::now();
        tokio::spawn({
            let stop = stop.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                stop.cancel();
            }
        });
        assert_eq!(run(&command, b"null", &BTreeMap::new(), &stop).await, Ended::Stopped);
        assert!(begun.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        assert!(!mark.exists(), "a grandchild went on after the stop");
    }

    #[tokio::test]
    async fn a_background_child_that_holds_the_pipe_does_not_hold_the_step() {
        let begun = Instant::now();
        assert_eq!(ended("sleep 60 & echo 1").await, completed("1\n"));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
