//! One table: what is said, and the line that answers it.

use std::{fs, path::Path};

use super::*;

const GOOD_NODE: &str =
    "node = 'n1'\ncontrol_plane = 'http://127.0.0.1:1'\nkey = 'k'\nstores.a.url = 'sqlite:a.db'\n";
const GOOD_CONTROL: &str = "database = 'sqlite:c.db'\n";

#[derive(Clone, Copy)]
enum Process {
    Control,
    Data,
}

/// Answers what is in force, or what is wrong.
fn read(
    process: Process,
    file: &str,
    environment: &[(&str, &str)],
    set: &[&str],
) -> Result<Vec<String>, Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orch8.toml");
    fs::write(&path, file).expect("writes");
    let flags = SettingFlags {
        config: Some(path),
        set: set.iter().map(|s| (*s).to_owned()).collect(),
        ..SettingFlags::default()
    };
    let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let mut problems = Problems::default();
    let sources = Sources::read(&flags, environment, &mut problems);
    let read = match process {
        Process::Control => ControlPlaneConfig::read(&sources, problems).map(|(_, shown)| shown),
        Process::Data => DataPlaneConfig::read(&sources, problems).map(|(_, shown)| shown),
    };
    let shown = read.map(|shown| {
        shown.iter().map(|s| format!("{} = {} ({})", s.path, s.value, s.from)).collect::<Vec<_>>()
    });
    shown.map_err(|problems| {
        let folder = folder.path().display().to_string();
        problems.lines().iter().map(|line| line.replace(&folder, "DIR")).collect()
    })
}

/// The lines that answer one bad text, which begins with these words.
fn refuses(process: Process, file: &str, environment: &[(&str, &str)], expected: &[&str]) {
    let lines = read(process, file, environment, &[]).expect_err(file);
    let fits = lines.len() == expected.len() && lines.iter().zip(expected).all(|(l, e)| l.starts_with(e));
    assert!(fits, "{file:?} {environment:?}\n{lines:#?}\ninstead of\n{expected:#?}");
}

#[test]
fn each_bad_setting_of_a_control_plane_has_its_line() {
    use Process::Control;
    let good = |more: &str| format!("{GOOD_CONTROL}{more}");
    for (file, line) in [
        ("", "database: is missing; allowed: postgres://… or sqlite:FILE"),
        ("database = 'mysql://x'", "database: must begin with postgres:// or sqlite:; allowed: "),
        ("database = 5", "database: is a number, not a text"),
        ("database_file = 'gone/db'", "database_file: cannot read gone/db: No such file"),
        (
            "database = 'sqlite:a'\ndatabase_file = 'b'",
            "database_file: stands beside database; allowed: one of the two",
        ),
        (
            &good("listen = 'here'"),
            "listen: is \"here\", which is no address; allowed: an IP address and a port",
        ),
        (&good("listen = 7233"), "listen: is a number, not a text"),
        (
            &good("listen = '0.0.0.0:1'"),
            "listen: is 0.0.0.0:1, where others could read keys on the way; allowed: loopback; or set tls.certificate",
        ),
        (&good("listen = '[::]:1'"), "listen: is [::]:1, where others"),
        (&good("drain = 'soon'"), "drain: is \"soon\": wants a number and a unit"),
        (&good("drain = '20'"), "drain: is \"20\", which has no unit"),
        (&good("drain = -1"), "drain: must not be negative; allowed: 0 to 1 h"),
        (&good("drain = '2h'"), "drain: is 2 h 00 min; allowed: 0 to 1 h"),
        (&good("drain = []"), "drain: is a list, not a duration"),
        (&good("connection_age = 0.5"), "connection_age: is 500 ms; allowed: 1 s to 7 d"),
        (&good("plaintext = 'yes'"), "plaintext: is \"yes\"; allowed: true or false"),
        (&good("tls.certificate = 'gone.pem'"), "tls.certificate: cannot read gone.pem: No such file"),
        (&good("tls.client_ca = '/dev/null'"), "tls.client_ca: /dev/null holds no certificate"),
        (&good("tls = 'on'"), "tls: is not a setting of this command"),
        (
            &good("tls.client = 'x'"),
            "tls.client: is not a setting of this command; did you mean tls.client_ca?",
        ),
        (&good("node = 'n'"), "node: is not a setting of this command"),
        (
            &good("databse_file = 'n'"),
            "databse_file: is not a setting of this command; did you mean database?",
        ),
        ("= 5", "--config: DIR/orch8.toml: line 1: "),
        (
            &good("listen = '127.0.0.1:1'\nlisten = '127.0.0.1:2'"),
            "--config: DIR/orch8.toml: line 3: duplicate key",
        ),
    ] {
        let lines = read(Control, file, &[], &[]).expect_err(file);
        assert!(lines.iter().any(|l| l.starts_with(line)), "{file:?}\n{lines:#?}\ninstead of\n{line}");
    }
}

#[test]
fn each_bad_setting_of_a_data_plane_has_its_line() {
    use Process::Data;
    // The good file without one of its keys, and with something else instead.
    let without = |key: &str, more: &str| {
        let kept: Vec<&str> = GOOD_NODE.lines().filter(|line| !line.starts_with(key)).collect();
        format!("{}\n{more}", kept.join("\n"))
    };
    let many: String = (0..257).map(|n| format!("stores.s{n}.url = 'sqlite:{n}.db'\n")).collect();
    for (file, line) in [
        (without("node", ""), "node: is missing; allowed: 1 to 256 bytes"),
        (without("node", "node = ''"), "node: must not be empty"),
        (without("control_plane", ""), "control_plane: is missing; allowed: 1 to 16 addresses"),
        (without("control_plane", "control_plane = []"), "control_plane: names no address"),
        (without("control_plane", "control_plane = ['h:1']"), "control_plane: begins neither with http://"),
        (
            without("control_plane", "control_plane = [5]"),
            "control_plane: holds something that is not a text",
        ),
        (
            without("control_plane", "control_plane = 'http://h:1'"),
            "control_plane: names http://h:1, and the key could be read on the way; allowed: https://…",
        ),
        (
            without("key", ""),
            "key: is missing, and there is no control_plane_tls.certificate instead; allowed: the key, on one line",
        ),
        (without("key", "key = 'a b'"), "key: is empty, or holds characters that no key has"),
        (without("key", "key_file = '/dev/null'"), "key_file: is empty, or holds"),
        (without("stores", ""), "stores: names no store; allowed: 1 to 256 stores"),
        (without("stores", &many), "stores: names 257 stores; allowed: 1 to 256"),
        (without("stores", "[stores.a]\nurl = 'x'"), "stores.a.url: must begin with postgres:// or sqlite:"),
        (without("stores", "[stores.a]"), "stores.a: is not a setting"),
        (without("stores", "[stores.' ']\nurl = 'sqlite:a'"), "stores. : must not be only spaces"),
        (
            without("stores", "[stores.a]\nurl = 'sqlite:a'\nurls = 5"),
            "stores.a.urls: is not a setting of this command; did you mean stores.*.url?",
        ),
        (
            without("stores", "[stores.a]\nurl = 'sqlite:a'\n[stores.b]\nurl = 'sqlite:a'"),
            "stores.b.url: is the database of stores.a too",
        ),
        (without("#", "advertise = 'ftp://h'"), "advertise: begins neither with http://"),
        (
            without("#", "listen = '0.0.0.0:1'\nplaintext = true"),
            "advertise: is missing, and `listen` names every address",
        ),
        (without("#", "control_plane_tls.ca = 'gone'"), "control_plane_tls.ca: cannot read gone"),
        (
            without("#", "control_plane_tls.key = '/dev/null'"),
            "control_plane_tls.certificate: is missing beside control_plane_tls.key",
        ),
        (without("#", "database = 'sqlite:c'"), "database: is not a setting of this command"),
    ] {
        let lines = read(Data, &file, &[], &[]).expect_err(&file);
        assert!(lines.iter().any(|l| l.starts_with(line)), "{file}\n{lines:#?}\ninstead of\n{line}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    refuses(
        Process::Data,
        "liste = 5\nlisten = '0.0.0.0:7233'\ndrain = 'x'\ncontrol_plane = 'h'\nstores.a.url = 'x'",
        &[("ORCH8_STORES_B_URL_FILE", "gone"), ("ORCH8_CONNECTION_AGE", "1ms")],
        &[
            "liste: is not a setting of this command; did you mean listen?",
            "node: is missing",
            "drain: is \"x\"",
            "ORCH8_CONNECTION_AGE: is 1 ms",
            "listen: is 0.0.0.0:7233, where others",
            "advertise: is missing",
            "control_plane: begins neither",
            "key: is missing",
            "stores.a.url: must begin",
            "ORCH8_STORES_B_URL_FILE: cannot read gone",
        ],
    );
}

#[test]
fn flags_win_over_variables_and_these_over_the_file() {
    let file = format!("{GOOD_CONTROL}drain = 1000");
    let in_force = |environment: &[(&str, &str)], set: &[&str]| {
        let shown = read(Process::Control, &file, environment, set).expect("fits");
        shown.into_iter().find(|line| line.starts_with("drain")).expect("a drain")
    };
    assert_eq!(in_force(&[], &[]), "drain = 1000 (drain)");
    assert_eq!(in_force(&[("ORCH8_DRAIN", "2s")], &[]), "drain = \"2s\" (ORCH8_DRAIN)");
    assert_eq!(in_force(&[("ORCH8_DRAIN", "")], &[]), "drain = 1000 (drain)", "empty is unset");
    assert_eq!(in_force(&[("ORCH8_DRAIN", "2s")], &["drain=3s"]), "drain = \"3s\" (--set drain)");
    // A secret of a weaker source does not stand beside one of a stronger source.
    let shown = read(Process::Control, &file, &[("ORCH8_DATABASE", "sqlite:env.db")], &[]).expect("fits");
    assert!(shown.contains(&"database = \"sqlite:env.db\" (ORCH8_DATABASE)".to_owned()), "{shown:?}");
}

#[test]
fn a_secret_comes_from_its_file_and_is_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("writes");
        path.display().to_string()
    };
    let (url, key) = (put("url", "postgres://u:hunter2@db/orch8\n"), put("key", "o8_hunter2\n"));
    let file =
        format!("node='n'\ncontrol_plane='http://[::1]:1'\nkey_file='{key}'\nstores.eu.url_file='{url}'");
    let shown = read(Process::Data, &file, &[], &[]).expect("fits").join("\n");
    assert!(shown.contains("stores.eu.url = \"postgres://db/orch8\" (stores.eu.url_file)"), "{shown}");
    assert!(shown.contains("key = \"(not shown)\" (key_file)"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    // Nor in what is said about a bad one.
    for bad in ["database = 'hunter2://x'", "database = ['hunter2']", "database = 'postgres://hunter2\nx'"] {
        let lines = read(Process::Control, bad, &[], &["hunter2"]).expect_err(bad).join("\n");
        assert!(!lines.contains("hunter2"), "{lines}");
    }
}

#[test]
fn a_store_may_be_named_by_a_variable_and_one_of_the_file_keeps_its_name() {
    let environment = [
        ("ORCH8_STORES_EU_WEST_URL", "sqlite:eu.db"),
        ("ORCH8_STORES_NEW_URL", "sqlite:new.db"),
        // What Kubernetes says about a service of this name.
        ("ORCH8_STORES_NEW_SERVICE_HOST", "10.0.0.1"),
        ("ORCH8_STORES_NEW_PORT", "tcp://10.0.0.1:5432"),
    ];
    let file =
        format!("{GOOD_NODE}stores.'EU-west'.url = 'sqlite:old.db'\nstores.'a.b'.url = 'sqlite:ab.db'");
    let shown = read(Process::Data, &file, &environment, &["stores.set.url=sqlite:set.db"]).expect("fits");
    let stores: Vec<&str> =
        shown.iter().filter(|line| line.starts_with("stores")).map(String::as_str).collect();
    assert_eq!(
        stores,
        [
            "stores.EU-west.url = \"sqlite:eu.db\" (ORCH8_STORES_EU_WEST_URL)",
            "stores.a.url = \"sqlite:a.db\" (stores.a.url)",
            "stores.a.b.url = \"sqlite:ab.db\" (stores.a.b.url)",
            "stores.new.url = \"sqlite:new.db\" (ORCH8_STORES_NEW_URL)",
            "stores.set.url = \"sqlite:set.db\" (--set stores.set.url)",
        ]
    );
}

#[test]
fn a_certificate_must_fit_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let (crt, key) =
            (folder.path().join(format!("{name}.crt")), folder.path().join(format!("{name}.key")));
        fs::write(&crt, made.cert.pem()).expect("writes");
        fs::write(&key, made.signing_key.serialize_pem()).expect("writes");
        (crt, key)
    };
    let ((crt, key), (other, _)) = (made("a"), made("b"));
    let tls = |crt: &Path, key: &Path| {
        let file = format!(
            "{GOOD_CONTROL}listen = '0.0.0.0:1'\ntls.certificate = '{}'\ntls.key = '{}'\ntls.client_ca = '{}'",
            crt.display(),
            key.display(),
            other.display()
        );
        read(Process::Control, &file, &[], &[])
    };
    assert!(tls(&crt, &key).is_ok(), "with TLS any address will do");
    let wrong = tls(&other, &key).expect_err("another's certificate");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(
        wrong[0].starts_with(&format!(
            "tls.certificate: {} does not belong to the private key in {}",
            other.display(),
            key.display()
        )),
        "{wrong:?}"
    );
    let wrong = tls(&crt, &crt).expect_err("no key");
    assert!(wrong[0].starts_with(&format!("tls.key: {} holds no private key", crt.display())), "{wrong:?}");
}

#[test]
fn what_is_missing_follows_from_what_is_there() {
    let shown = read(Process::Data, GOOD_NODE, &[], &[]).expect("fits").join("\n");
    for line in
        ["listen = \"127.0.0.1:7233\" (default)", "drain = \"20s\" (default)", "plaintext = false (default)"]
    {
        assert!(shown.contains(line), "{shown}");
    }
    for file in [
        format!("{GOOD_NODE}listen = '10.0.0.1:7233'\nplaintext = true"),
        format!("{GOOD_NODE}listen = '0.0.0.0:7233'\nplaintext = true\nadvertise = 'http://n1:7233'"),
        GOOD_NODE.replace("http://127.0.0.1:1", "https://a:1,https://b:1"),
        GOOD_NODE.replace("'http://127.0.0.1:1'", "['https://a:1', 'https://b:1']"),
    ] {
        assert!(read(Process::Data, &file, &[], &[]).is_ok(), "{file}");
    }
}
