//! The traffic in this folder is what the generator makes.

#[allow(dead_code, unreachable_pub)]
#[path = "../generate_traffic.rs"]
mod generate_traffic;

#[test]
fn the_story_is_what_the_generator_makes() {
    let mut made = Vec::new();
    generate_traffic::write_story(&mut made).unwrap();
    assert!(made == include_bytes!("../traffic.jsonl"), "make examples/traffic.jsonl again");
}

#[test]
fn the_access_log_is_what_the_generator_makes() {
    let mut made = Vec::new();
    generate_traffic::write_access_log(&mut made).unwrap();
    assert!(made == include_bytes!("../access-log.csv"), "make examples/access-log.csv again");
}

#[test]
fn the_samples_are_what_the_generator_makes() {
    let mut made = Vec::new();
    generate_traffic::write_samples(&mut made).unwrap();
    assert!(made == include_bytes!("../samples.jsonl"), "make examples/samples.jsonl again");
}

#[test]
fn large_traffic_has_as_many_calls_as_asked_for() {
    let mut made = Vec::new();
    generate_traffic::write_many(1_000, 7, &mut made).unwrap();
    assert_eq!(made.iter().filter(|byte| **byte == b'\n').count(), 1_000);
}
