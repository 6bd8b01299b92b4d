//! What vendors' caches of prompts hold of this run, and what they made of the newest request.

use std::collections::BTreeMap;

use super::RunState;
use super::check::{Checked, must};
use crate::event::{CacheMissed, ModelAnswered, PromptBroke};
use crate::prompt::MissWhy;
use crate::route::RouteId;

/// How long vendors keep a prompt that nobody asks for again, in milliseconds: the shortest time that any of them states.
const KEPT_MS: u64 = 5 * 60 * 1000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cache {
    warm: BTreeMap<RouteId, Warm>,
    miss: Option<CacheMissed>,
}

/// What a vendor has after its newest answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Warm {
    at_ms: u64,
    tokens: u64,
    broke: bool,
}

impl Cache {
    /// The prompts that come begin otherwise, as they are meant to.
    pub(super) fn forget(&mut self) {
        self.warm.clear();
    }
}

impl RunState {
    /// That the vendor read less from its cache than it had there, for the newest answer, if it did and that is not on
    /// record yet.
    pub fn cache_miss(&self) -> Option<CacheMissed> {
        self.cache.miss
    }

    /// Looks at what the answer says of the cache. A tenth may be missing: vendors round to blocks.
    pub(super) fn look_at_cache(&mut self, at_ms: u64, body: &ModelAnswered) {
        self.cache.miss = None;
        if body.estimated {
            return;
        }
        let read = body.usage.cache_read;
        if let Some(warm) = self.cache.warm.get(&body.route)
            && u128::from(read) * 10 < u128::from(warm.tokens) * 9
        {
            let asked_ms = at_ms.saturating_sub(body.latency_ms);
            let why = if warm.broke {
                MissWhy::PromptBroke
            } else if asked_ms.saturating_sub(warm.at_ms) >= KEPT_MS {
                MissWhy::Expired
            } else {
                MissWhy::Vendor
            };
            self.cache.miss = Some(CacheMissed { step: body.step, expected: warm.tokens, read, why });
        }
        let tokens = read.saturating_add(body.usage.cache_write);
        self.cache.warm.insert(body.route, Warm { at_ms, tokens, broke: false });
    }

    pub(super) fn cache_missed(&mut self, body: CacheMissed) -> Checked {
        must(self.cache.miss == Some(body), "the newest answer does not say so")?;
        self.cache.miss = None;
        Ok(())
    }

    pub(super) fn prompt_broke(&mut self, body: PromptBroke) -> Checked {
        must(body.step.0 == self.ledger.steps, "it is not of the step that is due")?;
        must(self.model_of(body.route).is_some(), "the contract names no such model")?;
        if let Some(warm) = self.cache.warm.get_mut(&body.route) {
            warm.broke = true;
        }
        Ok(())
    }
}
