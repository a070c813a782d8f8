//! Sources of random bits: the thread's own generator, or a seed for simulations that must be reproducible.

use std::sync::{Mutex, PoisonError};

use breakerbox_core::RandomBits;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

pub(crate) enum RandomSource {
    /// Unpredictable bits from the thread's random number generator.
    Random,
    /// Reproducible bits from a generator with a fixed seed, for simulations.
    Seeded(Box<Mutex<SmallRng>>),
}

impl RandomSource {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        seed.map_or(Self::Random, |seed| Self::Seeded(Box::new(Mutex::new(SmallRng::seed_from_u64(seed)))))
    }

    pub(crate) fn draw(&self) -> RandomBits {
        RandomBits(match self {
            Self::Random => rand::random(),
            Self::Seeded(source) => source.lock().unwrap_or_else(PoisonError::into_inner).random(),
        })
    }
}
