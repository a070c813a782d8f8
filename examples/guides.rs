//! Compiles and runs the examples in the guides. They are here, and not in the crates that they are about, because a
//! published crate contains no file from outside its own directory.

#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../docs/guide/library.md")]
    struct Library;

    #[doc = include_str!("../docs/guide/throttle.md")]
    struct Throttle;

    #[doc = include_str!("../docs/guide/sampling.md")]
    struct Sampling;

    #[doc = include_str!("../docs/guide/tower.md")]
    struct Tower;

    #[doc = include_str!("../docs/guide/fleet.md")]
    struct Fleet;

    #[doc = include_str!("../docs/operating/postgres.md")]
    struct Postgres;

    #[doc = include_str!("../README.md")]
    struct Readme;
}
