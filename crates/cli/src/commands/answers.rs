//! Answers that wait for a driver: what somebody said of an act from elsewhere, and nobody has read yet.

use provost::core::event::Verdict;
use provost::core::id::{ActId, RunId};
use provost::core::text::{Lines, visible};
use provost::journal::{Store, Word};

use super::setup::Place;
use crate::failure::Failure;

/// An answer, and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) act: ActId,
    pub(crate) verdict: Verdict,
    pub(crate) by: String,
}

impl Answered {
    /// The answer about `act` that waits for whoever goes on with the run.
    pub(crate) async fn about(
        place: &Place,
        run: &RunId,
        act: Option<ActId>,
    ) -> Result<Option<Self>, Failure> {
        let Some(act) = act else { return Ok(None) };
        let letters = place.store.letters(run).await?;
        Ok(letters.into_iter().find_map(|letter| match letter.says {
            Word::Verdict { act: about, verdict } if about == act => {
                Some(Self { act, verdict, by: letter.by })
            }
            _ => None,
        }))
    }

    pub(crate) fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Approved => "approved",
            Verdict::Denied => "denied",
        }
    }

    /// `act 3 is approved by attach, which nobody has acted on yet`.
    pub(crate) fn line(&self) -> String {
        let by = visible(&self.by, Lines::Escape);
        format!("act {} is {} by {by}; the next driver acts on it", self.act, self.word())
    }
}
