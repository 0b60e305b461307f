//! Write transactions: begun, run and ended in a task of their own, so that no caller that goes away leaves one half
//! done. READ COMMITTED, and that is meant: a statement that comes after a lock sees what the lock waited for.
//!
//! A connection goes back to its pool only after a COMMIT or a ROLLBACK that was answered; any other is cut off, and
//! the server rolls back what it had open.

use std::{future::Future, sync::Arc};

use sqlx::{PgConnection, Postgres, pool::PoolConnection};

use super::session::{Pool, Session, database, sqlstate, unknown, within};
use crate::store::{StoreError, counts::Counts};

/// One write operation. It may run more than once, so it only borrows what it was given.
pub(super) trait Write: Sync {
    type Answer: Send;

    /// What is being done, for errors.
    const DOING: &'static str;

    /// Does it, inside a transaction that begins before and ends after it. It locks first, then looks.
    fn run(&self, session: &mut Session<'_>) -> impl Future<Output = Result<Self::Answer, Trouble>> + Send;
}

/// Why a transaction is rolled back.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Somebody else was faster: run again, and see what they did.
    Again,
    Failed(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Whoever loses a race lost it to somebody who got on: this many in a row are a mistake of ours.
const ATTEMPTS_MAX: u32 = 16;

impl Pool {
    /// Runs a write to its end, whatever becomes of the caller. One that goes away before there is a connection for it
    /// has written nothing: what nobody waits for any more keeps nobody waiting.
    pub async fn spawn<W: Write + Send + 'static>(&self, write: W) -> Result<W::Answer, StoreError>
    where
        W::Answer: 'static,
    {
        let conn = self.acquire().await.map_err(|e| database(W::DOING, e))?;
        let pool = self.clone();
        let task = tokio::spawn(async move { pool.transact_from(Some(conn), &write).await });
        // The runtime ends, and the task with it.
        task.await.unwrap_or_else(|_| Err(unknown(W::DOING, sqlx::Error::WorkerCrashed)))
    }

    /// Runs a write; to be called where nobody drops the future.
    pub async fn transact<W: Write>(&self, write: &W) -> Result<W::Answer, StoreError> {
        self.transact_from(None, write).await
    }

    /// The first attempt takes the connection that is there.
    async fn transact_from<W: Write>(
        &self,
        mut first: Option<PoolConnection<Postgres>>,
        write: &W,
    ) -> Result<W::Answer, StoreError> {
        let mut attempt = 1;
        loop {
            let trouble = match self.attempt(first.take(), write).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            match trouble {
                Trouble::Again if attempt < ATTEMPTS_MAX => {}
                Trouble::Failed(StoreError::Database { ref source, .. })
                    if attempt < ATTEMPTS_MAX && was_victim(source) => {}
                Trouble::Again => {
                    let lost = sqlx::Error::Protocol("the same race was lost over and over".into());
                    return Err(database(W::DOING, lost));
                }
                Trouble::Failed(error) => return Err(error),
            }
            attempt += 1;
        }
    }

    async fn attempt<W: Write>(
        &self,
        conn: Option<PoolConnection<Postgres>>,
        write: &W,
    ) -> Result<W::Answer, Trouble> {
        let mut tx = self.begin_on(conn, W::DOING).await?;
        match write.run(&mut tx.session()).await {
            Ok(answer) => {
                tx.commit().await?;
                Ok(answer)
            }
            Err(trouble) => {
                tx.roll_back().await;
                Err(trouble)
            }
        }
    }

    pub async fn begin(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        self.begin_on(None, doing).await
    }

    /// A connection that turns out to be gone is replaced: nothing has begun yet.
    async fn begin_on(
        &self,
        mut first: Option<PoolConnection<Postgres>>,
        doing: &'static str,
    ) -> Result<Transaction, StoreError> {
        let mut gone = 0;
        loop {
            let conn = match first.take() {
                Some(conn) => conn,
                None => self.acquire().await.map_err(|e| database(doing, e))?,
            };
            let mut tx = Transaction { conn: Some(conn), counts: Arc::clone(&self.counts), doing };
            match tx.control("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await {
                Ok(()) => {
                    Counts::add(&self.counts.transactions, 1);
                    return Ok(tx);
                }
                Err(error) if gone >= Self::MAX => return Err(database(doing, error)),
                Err(_) => gone += 1,
            }
        }
    }
}

/// The server chose this transaction to end a deadlock, or to keep others in order. Nothing of it was written.
fn was_victim(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|code| code == "40P01" || code == "40001")
}

/// An open transaction. Dropped, it is cut off.
pub(super) struct Transaction {
    /// `None` once it has ended.
    conn: Option<PoolConnection<Postgres>>,
    counts: Arc<Counts>,
    doing: &'static str,
}

impl Transaction {
    pub fn session(&mut self) -> Session<'_> {
        let conn: &mut PgConnection = self.conn.as_mut().expect("it has not ended: that takes it");
        Session { conn, counts: &self.counts, doing: self.doing }
    }

    /// An error says nothing about the outcome: it may be on the disk.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        self.control("COMMIT").await.map_err(|e| unknown(self.doing, e))?;
        self.conn = None;
        Ok(())
    }

    pub async fn roll_back(mut self) {
        if self.control("ROLLBACK").await.is_ok() {
            self.conn = None;
        }
    }

    async fn control(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        match self.conn.as_mut() {
            // Not prepared: one message, and nothing that a pooler has to remember.
            Some(conn) => within(sqlx::raw_sql(sql).execute(&mut **conn)).await.map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            drop(conn.detach());
        }
    }
}
