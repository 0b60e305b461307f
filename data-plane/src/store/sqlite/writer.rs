//! The one writer. A task owns the only connection that may write and takes everything that waits into one transaction,
//! so that a hundred callers share one wait for the disk. Nobody's dropped future ends a transaction half way: callers
//! only hold the receiving end of an answer.

use std::{
    any::{Any, TypeId},
    future::Future,
    ops::ControlFlow,
    sync::Arc,
};

use futures::future::BoxFuture;
use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use super::{
    checkpoint::Checkpoints,
    open::FileLock,
    session::{Session, database},
};
use crate::store::{StoreError, counts::Counts};

/// One write operation. It may run twice, so it only borrows what it was given: when a group fails, each of its
/// operations runs again alone, and only the guilty one fails.
pub(super) trait Write: Sized + Send + Sync + 'static {
    type Answer: Send + 'static;

    /// What is being done, for errors.
    const DOING: &'static str;

    /// Roughly how many rows it writes: what a group is bounded by.
    fn rows(&self) -> usize;

    /// Does it, inside a transaction that begins before and ends after it. Because there is one writer, what it reads
    /// stays true until the commit.
    fn run(&self, session: &mut Session<'_>)
    -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;

    /// Does several that came together; answers in their order. Worth writing where many small ones come at once: a
    /// statement over all of them costs one hop to SQLite's thread.
    fn run_all(
        all: &[&Self],
        session: &mut Session<'_>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send {
        async move {
            let mut answers = Vec::with_capacity(all.len());
            for write in all {
                answers.push(write.run(session).await?);
            }
            Ok(answers)
        }
    }
}

/// The way to the writer. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    orders: mpsc::Sender<Order>,
}

enum Order {
    Write(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

impl Writer {
    /// Orders wait here while a group is on its way to the disk; callers beyond that wait in line.
    const QUEUE: usize = 1024;

    pub fn spawn(
        conn: SqliteConnection,
        counts: Arc<Counts>,
        checkpoints: Checkpoints,
        lock: FileLock,
    ) -> Self {
        let (orders, inbox) = mpsc::channel(Self::QUEUE);
        let desk = Desk { conn, counts, checkpoints, inbox, _lock: lock };
        tokio::spawn(desk.work());
        Self { orders }
    }

    pub async fn write<W: Write>(&self, write: W) -> Result<W::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Write(Box::new(Pending { write, answer: None, reply }));
        if self.orders.send(order).await.is_err() {
            return Err(database(W::DOING, sqlx::Error::PoolClosed));
        }
        // The task went away with the order in its hands.
        answer.await.unwrap_or_else(|_| Err(unknown(W::DOING, &Arc::new(sqlx::Error::WorkerCrashed))))
    }

    /// Waits until everything accepted so far is answered, and the connection is closed.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.orders.send(Order::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

/// The task's own things. The lock is let go last.
struct Desk {
    conn: SqliteConnection,
    counts: Arc<Counts>,
    checkpoints: Checkpoints,
    inbox: mpsc::Receiver<Order>,
    _lock: FileLock,
}

impl Desk {
    /// Rows of one group: a commit of this size is about as long as the disk takes to answer, and no caller waits for
    /// more than two.
    const GROUP_ROWS_MAX: usize = 2048;

    async fn work(mut self) {
        let mut closers = Vec::new();
        while let Some(order) = self.inbox.recv().await {
            let mut group = Vec::new();
            if let ControlFlow::Break(done) = self.gather(order, &mut group) {
                closers.push(done);
                self.inbox.close();
            }
            self.run(group).await;
            self.checkpoints.after_group(&mut self.conn).await;
        }
        self.checkpoints.last(&mut self.conn).await;
        if let Err(error) = self.conn.close().await {
            tracing::warn!(%error, "closing the store's file failed");
        }
        drop(self._lock);
        for done in closers {
            let _ = done.send(());
        }
    }

    /// Takes what waits, up to a group's size.
    fn gather(&mut self, first: Order, group: &mut Vec<Box<dyn Job>>) -> ControlFlow<oneshot::Sender<()>> {
        let mut rows = 0;
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Close(done) => return ControlFlow::Break(done),
                Order::Write(job) => {
                    rows += job.rows();
                    group.push(job);
                }
            }
            next = if rows < Self::GROUP_ROWS_MAX { self.inbox.try_recv().ok() } else { None };
        }
        ControlFlow::Continue(())
    }

    async fn run(&mut self, mut group: Vec<Box<dyn Job>>) {
        if group.is_empty() {
            return;
        }
        match self.transaction(&mut group).await {
            Ok(()) => group.into_iter().for_each(|job| job.answer(Ok(()))),
            Err(Failure::Commit(source)) => {
                let source = Arc::new(source);
                group.into_iter().for_each(|job| {
                    let error = unknown(job.doing(), &source);
                    job.answer(Err(error));
                });
            }
            Err(Failure::Work(error)) if group.len() == 1 => {
                if let Some(job) = group.pop() {
                    job.answer(Err(error));
                }
            }
            Err(Failure::Work(_)) => {
                for job in group {
                    Box::pin(self.run(vec![job])).await;
                }
            }
        }
    }

    async fn transaction(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        Counts::add(&self.counts.transactions, 1);
        self.begin().await?;
        // Nobody in a group has an answer yet, so any order is right: equals go together.
        group.sort_by_key(|job| job.kind());
        for equals in group.chunk_by_mut(|a, b| a.kind() == b.kind()) {
            let Some((first, rest)) = equals.split_first_mut() else { continue };
            let doing = first.doing();
            let mut session = Session { conn: &mut self.conn, counts: &self.counts, doing };
            if let Err(error) = first.attempt(rest, &mut session).await {
                self.roll_back().await;
                return Err(Failure::Work(error));
            }
        }
        if let Err(source) = control(&mut self.conn, "COMMIT").await {
            self.roll_back().await;
            return Err(Failure::Commit(source));
        }
        Ok(())
    }

    /// Plain statements instead of sqlx's transaction: SQLite ends a transaction by itself on a full disk or an I/O
    /// error, and sqlx's count of open transactions would then be wrong for ever.
    async fn begin(&mut self) -> Result<(), Failure> {
        if control(&mut self.conn, "BEGIN IMMEDIATE").await.is_ok() {
            return Ok(());
        }
        self.roll_back().await;
        let begun = control(&mut self.conn, "BEGIN IMMEDIATE").await;
        begun.map_err(|e| Failure::Work(database("begin", e)))
    }

    /// Fails when there is no transaction any more, which is what is wanted.
    async fn roll_back(&mut self) {
        if let Err(error) = control(&mut self.conn, "ROLLBACK").await {
            tracing::debug!(%error, "nothing to roll back");
        }
    }
}

/// Where a transaction failed.
enum Failure {
    /// Before the commit: nothing was written.
    Work(StoreError),
    /// In the commit: it may be on the disk.
    Commit(sqlx::Error),
}

async fn control(conn: &mut SqliteConnection, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(sql).execute(conn).await.map(drop)
}

fn unknown(doing: &'static str, source: &Arc<sqlx::Error>) -> StoreError {
    StoreError::OutcomeUnknown { doing, source: Arc::clone(source) }
}

/// A write and who waits for it, without its type.
trait Job: Any + Send {
    fn doing(&self) -> &'static str;
    fn rows(&self) -> usize;
    /// Equal for jobs of one type.
    fn kind(&self) -> TypeId;
    /// Runs itself and jobs of its type, and keeps the answers until the commit.
    fn attempt<'a>(
        &'a mut self,
        equals: &'a mut [Box<dyn Job>],
        session: &'a mut Session<'_>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
    /// Gives the answer, or the reason why there is none.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct Pending<W: Write> {
    write: W,
    answer: Option<W::Answer>,
    reply: oneshot::Sender<Result<W::Answer, StoreError>>,
}

impl<W: Write> Job for Pending<W> {
    fn doing(&self) -> &'static str {
        W::DOING
    }

    fn rows(&self) -> usize {
        self.write.rows()
    }

    fn kind(&self) -> TypeId {
        TypeId::of::<W>()
    }

    fn attempt<'a>(
        &'a mut self,
        equals: &'a mut [Box<dyn Job>],
        session: &'a mut Session<'_>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let equals = equals.iter_mut().filter_map(|job| (&mut **job as &mut dyn Any).downcast_mut::<Self>());
        let (writes, slots): (Vec<&W>, Vec<&mut Option<W::Answer>>) =
            std::iter::once(self).chain(equals).map(|pending| (&pending.write, &mut pending.answer)).unzip();
        Box::pin(async move {
            let answers = W::run_all(&writes, session).await?;
            for (slot, answer) in slots.into_iter().zip(answers) {
                *slot = Some(answer);
            }
            Ok(())
        })
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let answer = match (outcome, self.answer) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(answer)) => Ok(answer),
            (Ok(()), None) => Err(database(W::DOING, sqlx::Error::WorkerCrashed)),
        };
        // A caller that went away does not want it any more.
        let _ = self.reply.send(answer);
    }
}
