//! Jobs that make one call each, over Redis: each job's outcome is in the store when the job ends, however it
//! ends.

use breakerbox_testkit::fleet_checks::one_call_jobs_count;
use breakerbox_testkit::servers::RedisServer;

use crate::server::connect;

#[test]
fn of_many_jobs_with_one_failing_call_five_send_it() {
    let server = RedisServer::start().unwrap();
    one_call_jobs_count(async || connect(&server.url()).await);
}
