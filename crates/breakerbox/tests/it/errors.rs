//! Error messages: a chain contains each message once, and every cause is found by its type.

use std::error::Error;
use std::io;

use breakerbox::store::StoreError;
use breakerbox::throttle::{self, Priority, Rejected, Shed, Strategy, Throttle, ThrottlePolicy};
use breakerbox::{CallError, ManualClock, ProbeTimeout, Refusal};

/// Formats an error and all its sources, as error reporters do.
fn whole(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn down() -> io::Error {
    io::Error::other("boom")
}

/// Returns a shed error from a real throttle.
fn shed() -> Shed {
    let policy = ThrottlePolicy::builder().strategy(Strategy::Sre).build().unwrap();
    let throttle = Throttle::builder().policy(policy).clock(ManualClock::new()).build();
    (0..1_000_000).find_map(|_| throttle.try_acquire(Priority::LOW).err()).unwrap()
}

#[test]
fn no_error_repeats_what_its_source_says() {
    let shed = shed();
    let behind = |text: &str| format!("{text}: {shed}");
    let table: Vec<(Box<dyn Error>, String)> = vec![
        (
            Box::new(CallError::<io::Error>::Refused(Refusal::Disabled)),
            "the call was refused (disabled): the circuit is disabled until it is enabled".into(),
        ),
        (
            Box::new(CallError::<io::Error>::ProbeTimedOut(ProbeTimeout)),
            "the call was given up: the probe took longer than probe_timeout".into(),
        ),
        (
            Box::new(throttle::CallError::Failed(CallError::Failed(down()))),
            "the throttled call failed: the call failed: boom".into(),
        ),
        (Box::new(throttle::CallError::<io::Error>::Shed(shed)), behind("the throttle kept the call back")),
        (Box::new(Rejected::because("queue full")), "rejected by the destination: queue full".into()),
        (Box::new(StoreError::Unavailable(down().into())), "the store can't be used: boom".into()),
    ];
    for (error, expected) in table {
        assert_eq!(whole(&*error), expected);
    }
}

#[cfg(feature = "tower")]
#[test]
fn nor_do_those_of_the_layers() {
    use breakerbox::tower::{circuit, throttle};
    use breakerbox::{Key, KeyError};

    let key = Key::new("acme https://a.example/in").unwrap();
    let shed = shed();
    let table: Vec<(Box<dyn Error>, String)> = vec![
        (
            Box::new(circuit::Error::Refused { key: key.clone(), refusal: Refusal::ForcedOpen }),
            "acme https://a.example/in: refused (forced_open): an operator forced the circuit open".into(),
        ),
        (
            Box::new(circuit::Error::ProbeTimedOut { key, timeout: ProbeTimeout }),
            "acme https://a.example/in: given up: the probe took longer than probe_timeout".into(),
        ),
        (
            Box::new(circuit::Error::Key(KeyError::NoHost)),
            "no circuit for this request: url: has no host".into(),
        ),
        (
            Box::new(throttle::Error::Key(KeyError::NoHost)),
            "no throttle for this request: url: has no host".into(),
        ),
        (
            Box::new(throttle::Error::Inner(circuit::Error::Inner(down().into()).into())),
            "the service behind the throttle failed: the service behind the circuit failed: boom".into(),
        ),
        (Box::new(throttle::Error::Shed(shed)), format!("the throttle kept the request back: {shed}")),
    ];
    for (error, expected) in table {
        assert_eq!(whole(&*error), expected);
    }
}

#[cfg(feature = "reqwest-middleware")]
#[test]
fn nor_those_of_the_middleware() {
    use breakerbox::reqwest::Error;
    use breakerbox::{Key, KeyError};

    let key = Key::new("acme").unwrap();
    let shed = shed();
    let table = [
        (
            Error::Refused { key: key.clone(), refusal: Refusal::ForcedOpen },
            "acme: refused (forced_open): an operator forced the circuit open".to_string(),
        ),
        (
            Error::ProbeTimedOut { key, timeout: ProbeTimeout },
            "acme: given up: the probe took longer than probe_timeout".into(),
        ),
        (Error::Key(KeyError::NoHost), "no key for this request: url: has no host".into()),
        (Error::Shed(shed), format!("the throttle kept the request back: {shed}")),
    ];
    for (error, expected) in table {
        assert_eq!(whole(&reqwest_middleware::Error::from(error)), expected);
    }
}
