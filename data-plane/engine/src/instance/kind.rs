//! What the state has to know of a published block.

use crate::program::{BodyIx, Kind, Step};

/// Branch numbers of a try_catch's bodies.
pub(crate) const TRY: u32 = 0;
pub(crate) const CATCH: u32 = 1;
pub(crate) const FINALLY: u32 = 2;

impl Kind {
    /// The body with this branch, route or phase number. A loop has one body, whatever the number.
    pub(crate) fn body(&self, branch: u32) -> Option<BodyIx> {
        match self {
            Kind::Step(_) => None,
            Kind::Parallel { branches, .. } => branches.get(branch as usize).copied(),
            Kind::Router { routes, default } => match routes.get(branch as usize) {
                Some((_, body)) => Some(*body),
                None => default.filter(|_| branch as usize == routes.len()),
            },
            Kind::TryCatch { try_, catch, finally } => match branch {
                TRY => Some(*try_),
                CATCH => Some(*catch),
                FINALLY => *finally,
                3.. => None,
            },
            Kind::Loop(looping) => Some(looping.body),
            Kind::ForEach(each) => Some(each.body),
        }
    }

    pub(crate) fn step(&self) -> Option<&Step> {
        match self {
            Kind::Step(step) => Some(step),
            Kind::Parallel { .. }
            | Kind::Router { .. }
            | Kind::TryCatch { .. }
            | Kind::Loop(_)
            | Kind::ForEach(_) => None,
        }
    }

    /// How many iterations are kept; 0 = all.
    pub(crate) fn retain_iterations(&self) -> u32 {
        match self {
            Kind::Loop(looping) => looping.retain_iterations,
            Kind::ForEach(each) => each.retain_iterations,
            Kind::Step(_) | Kind::Parallel { .. } | Kind::Router { .. } | Kind::TryCatch { .. } => 0,
        }
    }

    pub(crate) fn continues_on_error(&self) -> bool {
        match self {
            Kind::Loop(looping) => looping.continue_on_error,
            Kind::ForEach(each) => each.continue_on_error,
            Kind::Step(_) | Kind::Parallel { .. } | Kind::Router { .. } | Kind::TryCatch { .. } => false,
        }
    }
}
