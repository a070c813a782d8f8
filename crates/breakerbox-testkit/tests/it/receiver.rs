//! The receiver and the load generator, tested against each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use breakerbox_testkit::load::{Load, NUMBER, Pace, Report, STAMP, Template};
use breakerbox_testkit::receiver::{Behaviour, Hostile, IdHash, Receiver, Recording, Visit};
use breakerbox_testkit::servers::wait_until;

const MS: Duration = Duration::from_millis(1);

/// Returns a load generator for a path, with a different ID for each request.
fn load(receiver: &Receiver, path: &str) -> Load {
    let body = format!(r#"{{"at":"{STAMP}","fill":"{}"}}"#, "x".repeat(400));
    // The ID is in the head; the template's placeholders may be anywhere.
    let id = format!("evt_{NUMBER}");
    let host = receiver.address().to_string();
    Load::new(receiver.address(), Template::post(&host, path, &[("webhook-id", &id)], &body))
}

fn post(receiver: &Receiver, path: &str, requests: u64) -> Report {
    Load { requests, connections: 1, call_limit: 30 * MS * 1_000, ..load(receiver, path) }.run().unwrap()
}

fn id(number: u64) -> IdHash {
    IdHash::of(format!("evt_{number:010}").as_bytes())
}

#[test]
fn every_request_of_a_closed_loop_is_answered_and_written_down_once() {
    let receiver = Receiver::start().unwrap();
    let report = Load { requests: 2_000, connections: 8, ..load(&receiver, "/a") }.run().unwrap();
    assert_eq!((report.successes(), report.failures(), report.latencies.len()), (2_000, 0, 2_000));
    let seen = receiver.seen("/a");
    assert_eq!((seen.requests, seen.delivered, seen.in_flight), (2_000, 2_000, 0));
    let mut ids = receiver.with_visits(|visits| {
        assert!(visits.iter().all(|visit| visit.is_delivered() && visit.endpoint == receiver.number("/a")));
        assert!(visits.is_sorted_by_key(Visit::at));
        visits.iter().map(|visit| visit.id).collect::<Vec<_>>()
    });
    ids.sort();
    let mut expected: Vec<_> = (0..2_000).map(id).collect();
    expected.sort();
    assert_eq!(ids, expected);
    // The request arrived before its response was sent.
    let latencies = receiver.latencies(0);
    assert_eq!(latencies.len(), 2_000);
    assert!(latencies.max() <= report.latencies.max());
    assert!(report.cpu > Duration::ZERO && receiver.cpu() > Duration::ZERO);
}

#[test]
fn each_path_answers_in_its_manner() {
    let receiver = Receiver::builder().otherwise(Behaviour::status(404)).start().unwrap();
    for (path, behaviour, status, least) in [
        ("/unheard-of", None, 404, Duration::ZERO),
        ("/healthy", Some(Behaviour::HEALTHY), 200, Duration::ZERO),
        ("/gone", Some(Behaviour::GONE), 410, Duration::ZERO),
        ("/busy", Some(Behaviour::come_back(503, 7)), 503, Duration::ZERO),
        ("/slow", Some(Behaviour::after(201, 30 * MS)), 201, 30 * MS),
        ("/cold", Some(Behaviour::WarmUp { first: 30 * MS, over: 10, then: MS }), 200, 30 * MS),
        ("/none", Some(Behaviour::Limited { at_most: 0, takes: MS }), 503, Duration::ZERO),
    ] {
        if let Some(behaviour) = behaviour {
            receiver.set(path, behaviour);
        }
        let report = post(&receiver, path, 1);
        assert_eq!(report.answers.keys().copied().collect::<Vec<_>>(), [status], "{path}");
        assert!(report.took >= least, "{path}");
    }
    receiver.set_otherwise(&Behaviour::HEALTHY);
    assert_eq!(post(&receiver, "/unheard-of", 1).successes(), 1);
    assert_eq!(post(&receiver, "/gone", 1).successes(), 0);
}

#[test]
fn who_hangs_is_answered_when_that_is_said_and_who_leaves_is_not_in_flight() {
    let receiver = Receiver::start().unwrap();
    receiver.set("/dead", Behaviour::Hang);
    let in_flight = |count| {
        wait_until(|| {
            let seen = receiver.seen("/dead");
            if seen.in_flight == count { Ok(()) } else { Err(format!("{seen:?}")) }
        })
    };
    // These clients disconnect.
    let left = Load { requests: 3, connections: 3, call_limit: 50 * MS, ..load(&receiver, "/dead") };
    let report = left.run().unwrap();
    assert_eq!((report.unanswered, report.successes()), (3, 0));
    in_flight(0).unwrap();
    assert_eq!(receiver.seen("/dead").most_in_flight, 3);
    // These clients wait.
    let waiting = Load { requests: 3, connections: 3, ..load(&receiver, "/dead") }.start().unwrap();
    in_flight(3).unwrap();
    receiver.set("/dead", Behaviour::HEALTHY);
    assert_eq!(waiting.finish().successes(), 3);
    let statuses = receiver.with_visits(|visits| visits.iter().map(|visit| visit.status).collect::<Vec<_>>());
    assert_eq!(statuses, [0, 0, 0, 200, 200, 200]);
}

#[test]
fn beyond_its_limit_it_refuses() {
    let receiver = Receiver::start().unwrap();
    receiver.set("/small", Behaviour::Limited { at_most: 3, takes: 1_000 * MS });
    let report = Load { requests: 10, connections: 10, ..load(&receiver, "/small") }.run().unwrap();
    assert_eq!(report.answers.get(&503).copied().unwrap_or(0) + report.successes(), 10);
    assert!(report.successes() >= 3 && report.answers.contains_key(&503), "{:?}", report.answers);
}

#[test]
fn a_hostile_endpoint_never_gives_a_good_answer() {
    let receiver = Receiver::start().unwrap();
    for how in Hostile::ALL {
        receiver.set("/hostile", Behaviour::Hostile(how));
        let requests =
            Load { requests: 1, connections: 1, call_limit: 500 * MS, ..load(&receiver, "/hostile") };
        let report = requests.run().unwrap();
        // A gzip bomb is a valid response for a client that does not decompress it.
        let good = u64::from(how == Hostile::GzipBomb);
        assert_eq!((report.successes(), report.unanswered), (good, 1 - good), "{how:?}");
    }
}

#[test]
fn in_an_open_loop_who_is_kept_waiting_counts_from_when_it_should_have_begun() {
    let receiver = Receiver::start().unwrap();
    // One connection, 20 requests 1 ms apart, each takes 10 ms: the last one has waited for the others.
    receiver.set("/slow", Behaviour::after(200, 10 * MS));
    let pace = Pace::Open { per_second: 1_000.0 };
    let report = Load { requests: 20, connections: 1, pace, ..load(&receiver, "/slow") }.run().unwrap();
    assert_eq!(report.successes(), 20);
    assert!(report.percentile(100.0) >= 180 * MS, "{:?}", report.percentile(100.0));
    assert!(report.percentile(1.0) >= 10 * MS, "{:?}", report.percentile(1.0));
}

#[test]
fn an_open_loop_makes_its_requests_at_their_times_and_ends_with_its_time() {
    let receiver = Receiver::start().unwrap();
    let pace = Pace::Open { per_second: 200.0 };
    let start = Instant::now();
    let load = Load { time: 300 * MS, connections: 4, pace, ..load(&receiver, "/a") };
    let report = load.run().unwrap();
    assert_eq!(report.successes(), 60);
    assert!(start.elapsed() >= 290 * MS);
}

#[test]
fn signatures_are_checked_and_books_have_limits() {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let receiver = Receiver::builder()
        .recording(Recording::Visits { at_most: 5 })
        .check(move |received| {
            counted.fetch_add(1, Ordering::Relaxed);
            received.header("webhook-id") != Some("evt_0000000003") && received.body.starts_with(b"{")
        })
        .start()
        .unwrap();
    assert_eq!(post(&receiver, "/a", 8).successes(), 8);
    assert_eq!((asked.load(Ordering::Relaxed), receiver.seen("/a").unsigned), (8, 1));
    assert_eq!((receiver.with_visits(<[_]>::len), receiver.unwritten()), (5, 3));
    receiver.forget();
    assert_eq!((receiver.with_visits(<[_]>::len), receiver.unwritten()), (0, 0));
    assert_eq!(receiver.seen_in_all().requests, 8);
}

#[test]
fn a_load_goes_on_when_its_target_comes_back_and_stops_when_it_is_dropped() {
    let receiver = Receiver::start().unwrap();
    receiver.set("/a", Behaviour::Hostile(Hostile::Reset));
    let running = Load { connections: 2, ..load(&receiver, "/a") }.start().unwrap();
    wait_until(|| if receiver.seen("/a").requests >= 4 { Ok(()) } else { Err("requests come".into()) })
        .unwrap();
    receiver.set("/a", Behaviour::HEALTHY);
    wait_until(|| if running.successes() >= 4 { Ok(()) } else { Err("it is answered".into()) }).unwrap();
    let report = running.stop();
    assert!(report.unanswered >= 4 && report.successes() >= 4);
    assert_eq!(receiver.seen("/a").in_flight, 0);
}

#[test]
fn stopping_does_not_wait_for_the_next_request_of_a_low_rate() {
    let receiver = Receiver::start().unwrap();
    // A request every 100 s, and eight connections that wait for theirs.
    let pace = Pace::Open { per_second: 0.01 };
    let running = Load { connections: 8, pace, ..load(&receiver, "/a") }.start().unwrap();
    wait_until(|| if running.successes() >= 1 { Ok(()) } else { Err("it is answered".into()) }).unwrap();
    let stopped = Instant::now();
    assert_eq!(running.stop().successes(), 1);
    assert!(stopped.elapsed() < 30_000 * MS, "{:?}", stopped.elapsed());
}
