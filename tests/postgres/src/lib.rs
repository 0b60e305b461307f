//! A Postgres of the tests' own. One cluster for each test process, one database for each test.
//!
//! Binaries are found in `ORCH8_TEST_POSTGRES` (a folder), by `pg_config`, or in the usual folders; where there are none
//! Debian's package is installed, and where that fails the test fails with the line to type. Tests never skip.
//!
//! A cluster ends with the process that started it, however that ends: a shell waits for the end of a pipe.

use std::{
    env, fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// What to type when nothing else helps.
const INSTALL: &str = "apt-get install --yes postgresql";
/// Where distributions put it, newest version last.
const USUAL: &[&str] = &["/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt", "/usr/local/opt"];

/// A new, empty database in this process's cluster, as `postgres://…`.
pub fn database() -> String {
    shared().database()
}

/// What a statement answers, a line for each row; as anybody with the address could ask.
pub fn ask(url: &str, sql: &str) -> String {
    let said = Command::new(binaries().join("psql"))
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--dbname"])
        .arg(url)
        .args(["--command", sql])
        .stdin(Stdio::null())
        .output()
        .expect("psql runs");
    assert!(said.status.success(), "{sql}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
}

/// The cluster of this process.
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(Cluster::start)
}

/// A running server with a data folder of its own.
#[derive(Debug)]
pub struct Cluster {
    bin: PathBuf,
    dir: PathBuf,
    port: u16,
    made: AtomicU32,
    /// CREATE DATABASE copies a template, which only one may do at a time.
    making: Mutex<()>,
    /// Its end tells the guard to stop the server and to remove the folder.
    _guard: (Child, ChildStdin),
}

impl Cluster {
    /// Makes and starts a cluster. Panics, with what to do, when that is impossible.
    pub fn start() -> Self {
        let bin = binaries();
        let dir = tempfile::Builder::new().prefix("orch8-pg-").tempdir().expect("a folder").keep();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("permissions");
        let data = dir.join("data");
        fs::create_dir(&data).expect("a folder");
        if is_root() {
            run(Command::new("chown").arg("-R").arg("postgres").arg(&dir));
        }
        run(as_postgres(&bin.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data));
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\nmax_connections = 300\nshared_buffers = 128MB\nmax_wal_size = 2GB\n",
            dir.display()
        );
        let settings_file = data.join("postgresql.auto.conf");
        fs::write(&settings_file, settings).expect("settings");
        let cluster =
            Self { _guard: guard(&dir), bin, dir, port, made: AtomicU32::new(0), making: Mutex::new(()) };
        cluster.up();
        cluster
    }

    /// Starts the server and waits until it answers.
    pub fn up(&self) {
        run(as_postgres(&self.bin.join("pg_ctl"))
            .args(["start", "--wait", "--timeout=60", "--silent", "-l"])
            .arg(self.dir.join("log"))
            .arg("-D")
            .arg(self.data()));
    }

    /// Stops the server as a crash would.
    pub fn crash(&self) {
        run(as_postgres(&self.bin.join("pg_ctl"))
            .args(["stop", "--mode=immediate", "--silent", "-D"])
            .arg(self.data()));
    }

    /// A new, empty database, as `postgres://…`.
    pub fn database(&self) -> String {
        let name = format!("t{}", self.made.fetch_add(1, Ordering::Relaxed));
        let _one = self.making.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        run(Command::new(self.bin.join("createdb"))
            .args(["--host=127.0.0.1", "--username=postgres", "--template=template0"])
            .arg(format!("--port={}", self.port))
            .arg(&name));
        self.url(&name)
    }

    /// Address of a database of this cluster.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }
}

/// Waits for the end of this process, then stops the server and removes its folder.
fn guard(dir: &Path) -> (Child, ChildStdin) {
    let stop = "read _ ; kill -QUIT $(head -1 \"$0/data/postmaster.pid\") 2>/dev/null; \
                while [ -e \"$0/data/postmaster.pid\" ] && kill -0 $(head -1 \"$0/data/postmaster.pid\") 2>/dev/null; do sleep 0.1; done; rm -rf \"$0\"";
    let mut child = Command::new("sh")
        .args(["-c", stop])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh");
    let stdin = child.stdin.take().expect("a pipe");
    (child, stdin)
}

/// The folder with `initdb`, found or installed.
fn binaries() -> PathBuf {
    if let Some(found) = find() {
        return found;
    }
    let installed = Command::new("sh")
        .args(["-c", &format!("{INSTALL} || {{ apt-get update && {INSTALL}; }}")])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match (installed, find()) {
        (Ok(_), Some(found)) => found,
        (_, _) => panic!(
            "the tests need Postgres and found none. Type `{INSTALL}`, or name the folder that holds initdb in ORCH8_TEST_POSTGRES"
        ),
    }
}

fn find() -> Option<PathBuf> {
    let told = env::var_os("ORCH8_TEST_POSTGRES").map(PathBuf::from);
    if let Some(told) = told {
        assert!(told.join("initdb").exists(), "ORCH8_TEST_POSTGRES has no initdb: {}", told.display());
        return Some(told);
    }
    let asked = Command::new("pg_config").arg("--bindir").output().ok();
    let asked = asked.map(|said| PathBuf::from(String::from_utf8_lossy(&said.stdout).trim()));
    let mut usual: Vec<PathBuf> = USUAL
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    usual.sort();
    asked.into_iter().chain(usual.into_iter().rev()).find(|bin| bin.join("initdb").exists())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0).unwrap_or(false)
}

/// A server refuses to run as root: then it runs as the user its package made.
fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program).current_dir("/");
    command
}

fn run(command: &mut Command) {
    let said = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let said = said.and_then(Child::wait_with_output);
    match said {
        Ok(said) if said.status.success() => {}
        Ok(said) => {
            panic!("{command:?} ended with {}: {}", said.status, String::from_utf8_lossy(&said.stderr))
        }
        Err(error) => panic!("{command:?} cannot be run: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_up_crashes_and_comes_back_with_its_databases() {
        let cluster = Cluster::start();
        let url = cluster.database();
        cluster.crash();
        cluster.up();
        let said = Command::new(cluster.bin.join("psql"))
            .args([&url, "--no-psqlrc", "--tuples-only", "--command", "SELECT current_database()"])
            .output()
            .expect("psql");
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "t0");
    }
}
