//! The promise table: what makes each attack fail under each rung, or why it is not promised to.

use provost_core::containment::{Guarantee, Receipt, Rung, Strength};

use super::Attack;

/// What makes an attack fail under a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The guarantee that the attack would break, as the receipt has it.
    Receipt,
    /// Another guarantee, which the receipt has.
    By(Guarantee),
    /// A layer of the rung, though the guarantee as a whole is absent there.
    Layer(&'static str),
    /// Landlock, from this ABI on.
    Landlock(u32),
    /// The guarantee that the attack would break, and where that is absent Landlock, from this ABI on.
    ReceiptOrLandlock(u32),
    /// Nothing, and why.
    Nothing(&'static str),
}

/// What is promised of an attack under a rung on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Promised {
    /// It fails.
    Fails {
        /// What makes it.
        by: String,
    },
    /// It may get somewhere, and is noticed and ended.
    Noticed {
        /// By what.
        by: String,
    },
    /// Nothing.
    Nothing {
        /// Why.
        why: String,
    },
}

impl Attack {
    /// What is promised of it.
    pub(crate) fn promised(&self, receipt: &Receipt) -> Promised {
        let promise = match receipt.rung {
            Rung::R4 if receipt.engine.is_some() => self.engine.unwrap_or(self.r3),
            Rung::R3 | Rung::R4 => self.r3,
            Rung::R2 => self.r2,
            Rung::R0 | Rung::R1 => self.r1,
        };
        let by = |guarantee: Guarantee| match receipt.guarantees.get(&guarantee) {
            Some(Strength::Enforced) => Promised::Fails { by: guarantee.name().to_owned() },
            Some(Strength::Sampled) => Promised::Noticed { by: guarantee.name().to_owned() },
            Some(Strength::Absent) | None => {
                Promised::Nothing { why: format!("`{}` is absent {}", guarantee.name(), place(receipt)) }
            }
        };
        match promise {
            Promise::Receipt => by(self.breaks),
            Promise::ReceiptOrLandlock(_) if receipt.enforces(self.breaks) => by(self.breaks),
            Promise::By(guarantee) => by(guarantee),
            Promise::Layer(layer) => Promised::Fails { by: layer.to_owned() },
            Promise::Landlock(abi) | Promise::ReceiptOrLandlock(abi)
                if receipt.landlock_abi.is_some_and(|has| has >= abi) =>
            {
                Promised::Fails { by: format!("Landlock ABI {abi}") }
            }
            Promise::Landlock(abi) | Promise::ReceiptOrLandlock(abi) => {
                Promised::Nothing { why: format!("Landlock ABI {abi} is needed") }
            }
            Promise::Nothing(why) => Promised::Nothing { why: why.to_owned() },
        }
    }
}

/// Where a guarantee holds or does not.
fn place(receipt: &Receipt) -> String {
    match receipt.engine {
        Some(engine) => format!("in a container of {engine}'s"),
        // The rung's name without its explanation.
        None => format!("under {:?}", receipt.rung),
    }
}
