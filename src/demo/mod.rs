//! `orch8 demo`: two thousand real flights through a durable workflow, with a ledger as judge.
//!
//! With `--kill`, engine and worker are killed (SIGKILL) again and again while work is in flight. Whatever happens,
//! every flight must end once, and every refund be paid once. Run again in the same folder, nothing happens twice.

mod accounting;
mod airports;
mod drive;
mod flights;
pub mod ledger;
mod stage;
pub mod worker;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use chrono::Utc;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{
    accounting::Tally,
    flights::{Class, FLIGHTS_MAX, Flight},
    stage::{Role, Stage},
};
use crate::{
    client::Server,
    error::Exit,
    human,
    screen::{Mode, Screen},
    timeline,
};

/// What a step takes at least; real work would take longer.
const PACE: Duration = Duration::from_millis(2);
/// With kills: long enough that every kill meets work in flight.
const PACE_WITH_KILLS: Duration = Duration::from_millis(30);
/// Who is killed when so many percent of the runs have ended.
const KILLS: [(Role, u64); 6] = [
    (Role::Engine, 10),
    (Role::Worker, 20),
    (Role::Engine, 35),
    (Role::Worker, 45),
    (Role::Engine, 60),
    (Role::Worker, 70),
];
/// The same with processes of their own.
const KILLS_OF_A_FLEET: [(Role, u64); 7] = [
    (Role::Engine, 10),
    (Role::Worker, 20),
    (Role::ControlPlane, 25),
    (Role::Engine, 35),
    (Role::Worker, 45),
    (Role::Engine, 60),
    (Role::Worker, 70),
];
/// How often processes and progress are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// `orch8 demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  orch8 demo
  orch8 demo --kill                  engine and worker are killed three times each on the way
  orch8 demo --kill --store postgres://user@host/empty
                                     control plane and nodes as processes of their own, on Postgres
  orch8 demo --dir ./look            keeps everything; afterwards: orch8 dev --dir ./look
The last line of --output json is {\"completed\":2000,\"partial\":74,\"full\":4,\"lost\":0,\"double\":0}.
lost: flights that did not end completed, or whose refund is missing or wrong. double: flights refunded more than once.
Exit code 0 only if everything adds up.")]
pub struct DemoArgs {
    /// Kill engine and worker on the way.
    #[arg(long)]
    kill: bool,
    /// The first so many of the 2,000 flights.
    #[arg(long, default_value_t = FLIGHTS_MAX, value_parser = clap::value_parser!(u32).range(1..=i64::from(FLIGHTS_MAX)))]
    flights: u32,
    /// Run control plane and nodes as processes of their own, on this database: `postgres://…` or `sqlite:FILE`. On
    /// Postgres two nodes are started, one of which stands by.
    #[arg(long, value_name = "URL", env = "ORCH8_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Folder to use and keep; else a temporary one.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub async fn run(args: DemoArgs, screen: Screen) -> anyhow::Result<Exit> {
    let flights = flights::flights(args.flights)?;
    let (dir, temporary) = folder(args.dir.as_deref())?;
    let outcome = perform(&flights, args.kill, args.store.as_deref(), &dir, screen).await;
    let good = matches!(&outcome, Ok(tally) if tally.adds_up());
    match temporary {
        // What went wrong stays to be looked at.
        Some(temporary) if !good => {
            let kept = temporary.keep();
            screen.tell(&format!("logs, ledger and database are in {}", kept.display()))?;
        }
        Some(_) => {}
        None => screen.tell(&format!(
            "everything is in {}; look around: orch8 dev --dir {0}, then ORCH8_DIR={0} orch8 instance list",
            dir.display()
        ))?,
    }
    let tally = outcome?;
    screen.show(|paint| tally.render(paint), || tally.line())?;
    Ok(if tally.adds_up() { Exit::Ok } else { Exit::Failed })
}

/// The folder, absolute, and the guard that removes a temporary one.
fn folder(wanted: Option<&Path>) -> anyhow::Result<(PathBuf, Option<tempfile::TempDir>)> {
    match wanted {
        Some(dir) => {
            std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
            Ok((dir.canonicalize()?, None))
        }
        None => {
            let temporary = tempfile::Builder::new().prefix("orch8-demo-").tempdir()?;
            Ok((temporary.path().to_owned(), Some(temporary)))
        }
    }
}

async fn perform(
    flights: &[Flight],
    kill: bool,
    store: Option<&str>,
    dir: &Path,
    screen: Screen,
) -> anyhow::Result<Tally> {
    let begun = Instant::now();
    screen.tell(&format!(
        "{} flights, each a durable workflow: wait out the delay, look up both airports, classify, refund.\n\
         {} in {}; three in ten refunds break on purpose.",
        human::count(flights.len() as u64),
        if store.is_some() {
            "A control plane, its nodes, a worker and a ledger, each a process,"
        } else {
            "Three processes (engine, worker, ledger)"
        },
        dir.display()
    ))?;
    let pace = if kill { PACE_WITH_KILLS } else { PACE };
    let mut stage = Stage::set(dir, pace, store).await?;
    let server = Server::lazy(&stage.connection().address, &stage.connection().client_key)?;
    drive::publish(&server).await?;

    let bar = progress_bar(flights.len() as u64, screen);
    let (ended, watched) = watch::channel(0);
    let done = CancellationToken::new();
    let plan: &[(Role, u64)] = match (kill, store) {
        (false, _) => &[],
        (true, None) => &KILLS,
        (true, Some(_)) => &KILLS_OF_A_FLEET,
    };
    let driving = async {
        // Also on an error: whoever watches the stage is to stop.
        let _stop_watching = done.clone().drop_guard();
        drive::run_all(&server, flights, &ended).await
    };
    let watching = watch_over(&mut stage, plan, flights.len() as u64, watched, &done, &bar, screen);
    let (ids, ()) = tokio::try_join!(driving, watching)?;
    bar.finish_and_clear();

    let endings = drive::endings(&server, &ids).await?;
    stage.check()?;
    let tally = accounting::tally(flights, &endings, &ledger::entries(dir)?);
    show_one(&server, flights, &ids, screen).await?;
    screen.tell(&format!("all of it took {}\n", human::duration(begun.elapsed())))?;
    Ok(tally)
}

/// Sees to it that nobody dies unplanned, and that those who should, do. A kill that has begun is finished before the
/// end is noticed.
async fn watch_over(
    stage: &mut Stage,
    plan: &[(Role, u64)],
    total: u64,
    ended: watch::Receiver<u64>,
    done: &CancellationToken,
    bar: &ProgressBar,
    screen: Screen,
) -> anyhow::Result<()> {
    let mut plan = plan.iter();
    let mut next = plan.next();
    while !done.is_cancelled() {
        stage.check()?;
        let now = *ended.borrow();
        bar.set_position(now);
        match next {
            Some((role, percent)) if now * 100 >= total * percent => {
                let gone = stage.kill_and_restart(*role).await?;
                bar.suspend(|| {
                    screen.tell(&format!(
                        "{} killed the {} with {} of {} runs ended; back after {}",
                        screen.paint.red("✗"),
                        role.name(),
                        human::count(now),
                        human::count(total),
                        human::duration(gone)
                    ))
                })?;
                next = plan.next();
            }
            Some(_) | None => tokio::time::sleep(LOOK).await,
        }
    }
    Ok(())
}

/// The tree of one flight, the dearest class first: what a run looks like.
async fn show_one(server: &Server, flights: &[Flight], ids: &[String], screen: Screen) -> anyhow::Result<()> {
    if screen.mode == Mode::Json {
        return Ok(());
    }
    let by_class = |class: Class| flights.iter().zip(ids).find(|(flight, _)| flight.class() == class);
    let Some((flight, id)) = Class::ALL.into_iter().rev().find_map(by_class) else { return Ok(()) };
    let tree = drive::timeline(server, id).await?;
    screen.tell(&format!(
        "\none of them, {} to {}, {} minutes late:\n{}",
        flight.origin,
        flight.destination,
        flight.delay,
        timeline::render(&tree, Utc::now().timestamp_millis(), screen.paint)
    ))
}

fn progress_bar(total: u64, screen: Screen) -> ProgressBar {
    if !screen.progress {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} ended, {elapsed}");
    ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_is_killed_three_times_in_turn_and_early_enough_to_matter() {
        for plan in [&KILLS[..], &KILLS_OF_A_FLEET] {
            assert!(plan.is_sorted_by(|a, b| a.1 < b.1 && a.0 != b.0));
            assert!(plan.iter().all(|(_, percent)| (1..80).contains(percent)));
            for role in [Role::Engine, Role::Worker] {
                assert_eq!(plan.iter().filter(|(r, _)| *r == role).count(), 3);
            }
        }
    }
}
