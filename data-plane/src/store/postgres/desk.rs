//! Small writes that come from many callers at once go together: whoever is free takes all that waits into one
//! transaction. Under load the groups grow by themselves; alone, a write waits for nobody.

use std::{future::Future, sync::Arc};

use tokio::sync::{Mutex, mpsc, oneshot};

use super::{
    session::{Pool, Session, database, is_gone, unknown},
    transaction::{Trouble, Write},
};
use crate::store::StoreError;

/// A write that can share a transaction with others of its kind.
pub(super) trait Small: Send + Sync + Sized + 'static {
    type Answer: Send + 'static;
    const DOING: &'static str;

    /// Roughly how many rows it writes: what a group is bounded by.
    fn rows(&self) -> usize;

    /// Whether it may share a transaction with one that came before it.
    fn goes_with(&self, other: &Self) -> bool;

    /// Does them, inside a transaction; answers in their order.
    fn run_all(
        all: &[Self],
        session: &mut Session<'_>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Trouble>> + Send;
}

/// The way to those who take what waits. Cheap to clone.
#[derive(Debug)]
pub(super) struct Desk<S: Small> {
    orders: mpsc::Sender<Order<S>>,
}

impl<S: Small> Clone for Desk<S> {
    fn clone(&self) -> Self {
        Self { orders: self.orders.clone() }
    }
}

#[derive(Debug)]
struct Order<S: Small> {
    write: S,
    reply: oneshot::Sender<Result<S::Answer, StoreError>>,
}

impl<S: Small> Desk<S> {
    /// Orders wait here while groups are on their way to the disk; callers beyond that wait in line.
    const QUEUE: usize = 1024;

    /// `clerks`: how many groups may be on their way at once.
    pub fn open(pool: &Pool, clerks: usize) -> Self {
        let (orders, inbox) = mpsc::channel(Self::QUEUE);
        let inbox = Arc::new(Mutex::new(inbox));
        for _ in 0..clerks {
            tokio::spawn(Clerk { pool: pool.clone(), inbox: Arc::clone(&inbox) }.work());
        }
        Self { orders }
    }

    pub async fn write(&self, write: S) -> Result<S::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        if self.orders.send(Order { write, reply }).await.is_err() {
            return Err(database(S::DOING, sqlx::Error::PoolClosed));
        }
        // The runtime ends, and the clerk with the order in its hands.
        answer.await.unwrap_or_else(|_| Err(unknown(S::DOING, sqlx::Error::WorkerCrashed)))
    }
}

struct Clerk<S: Small> {
    pool: Pool,
    inbox: Arc<Mutex<mpsc::Receiver<Order<S>>>>,
}

impl<S: Small> Clerk<S> {
    /// Rows of one group: a commit of this size is about as long as the disk takes to answer.
    const ROWS_MAX: usize = 2048;

    async fn work(self) {
        loop {
            let group = self.gather().await;
            if group.is_empty() {
                return;
            }
            let mut rest = group;
            while !rest.is_empty() {
                let (group, others) = together(rest);
                self.run(group).await;
                rest = others;
            }
        }
    }

    /// Takes what waits, up to a group's size; nothing once the desk is gone.
    async fn gather(&self) -> Vec<Order<S>> {
        let mut inbox = self.inbox.lock().await;
        let mut group = Vec::new();
        let mut rows = 0;
        let mut next = inbox.recv().await;
        // Whoever went away while it waited here does not want it any more, and nothing of it was begun.
        while next.as_ref().is_some_and(|order| order.reply.is_closed()) {
            next = inbox.recv().await;
        }
        while let Some(order) = next {
            if !order.reply.is_closed() {
                rows += order.write.rows();
                group.push(order);
            }
            next = if rows < Self::ROWS_MAX { inbox.try_recv().ok() } else { None };
        }
        group
    }

    /// When a group fails, each of its writes runs again alone, and only the guilty one fails. A server that is away is
    /// nobody's guilt: it would keep each of them waiting behind all the others.
    async fn run(&self, group: Vec<Order<S>>) {
        let (writes, replies): (Vec<S>, Vec<_>) =
            group.into_iter().map(|order| (order.write, order.reply)).unzip();
        match self.pool.transact(&Group(&writes)).await {
            Ok(answers) => {
                for (reply, answer) in replies.into_iter().zip(answers) {
                    // A caller that went away does not want it any more.
                    let _ = reply.send(Ok(answer));
                }
            }
            Err(StoreError::OutcomeUnknown { doing, source }) => {
                for reply in replies {
                    let _ =
                        reply.send(Err(StoreError::OutcomeUnknown { doing, source: Arc::clone(&source) }));
                }
            }
            Err(error) if writes.len() == 1 || is_away(&error) => {
                let mut error = Some(error);
                for reply in replies {
                    let error = error.take().unwrap_or_else(|| database(S::DOING, sqlx::Error::PoolTimedOut));
                    let _ = reply.send(Err(error));
                }
            }
            Err(_) => {
                for (write, reply) in writes.iter().zip(replies) {
                    let alone = self.pool.transact(&Group(std::slice::from_ref(write))).await;
                    let alone = alone.and_then(|mut answers| {
                        answers.pop().ok_or_else(|| database(S::DOING, sqlx::Error::WorkerCrashed))
                    });
                    let _ = reply.send(alone);
                }
            }
        }
    }
}

/// The server was not reached, or not any more.
fn is_away(error: &StoreError) -> bool {
    let StoreError::Database { source, .. } = error else { return false };
    matches!(source, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed) || is_gone(source)
}

/// Those that may share the first one's transaction, and the others, each in their order.
fn together<S: Small>(orders: Vec<Order<S>>) -> (Vec<Order<S>>, Vec<Order<S>>) {
    let mut orders = orders.into_iter();
    let mut group: Vec<Order<S>> = orders.next().into_iter().collect();
    let mut others = Vec::new();
    for order in orders {
        match group.first() {
            Some(first) if !order.write.goes_with(&first.write) => others.push(order),
            Some(_) | None => group.push(order),
        }
    }
    (group, others)
}

struct Group<'g, S>(&'g [S]);

impl<S: Small> Write for Group<'_, S> {
    type Answer = Vec<S::Answer>;
    const DOING: &'static str = S::DOING;

    async fn run(&self, session: &mut Session<'_>) -> Result<Vec<S::Answer>, Trouble> {
        S::run_all(self.0, session).await
    }
}
