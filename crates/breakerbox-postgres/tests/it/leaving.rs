//! Jobs that make one call each, over Postgres: each job's outcome is in the store when the job ends, however
//! it ends.

use breakerbox_testkit::fleet_checks::one_call_jobs_count;

use crate::server::{patient, shared};

#[test]
fn of_many_jobs_with_one_failing_call_five_send_it() {
    let server = shared();
    one_call_jobs_count(async || patient(&server.url()).schema("leaving").connect().await.unwrap());
}
