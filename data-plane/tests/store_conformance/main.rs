//! What every store promises, one claim per test. A test takes a `&Store` and knows no database; [`on_every_store`] runs
//! it on each. [`file`] is about SQLite alone; [`interleavings`], [`outages`], [`opening`] and [`rings`] about Postgres.

mod claims;
mod commits;
mod fences;
mod file;
mod ground;
mod interleavings;
mod lists;
mod messages;
mod opening;
mod outages;
mod rings;
mod sequences;
mod starts;

/// Runs each test function of the calling module on a fresh store of every kind.
macro_rules! on_every_store {
    ($($test:ident,)*) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    let fresh = crate::ground::Fresh::sqlite().await;
                    super::$test(&fresh.store).await;
                    fresh.store.close().await;
                }
            )*
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    let (store, _) = crate::ground::postgres().await;
                    super::$test(&store).await;
                    store.close().await;
                }
            )*
        }
    };
}
pub(crate) use on_every_store;
