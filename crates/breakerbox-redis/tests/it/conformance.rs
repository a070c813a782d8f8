//! The requirements on every store: on a single server, with several processes, and on a cluster.

mod on_one_server {
    breakerbox_testkit::store_conformance!(crate::server::on_one());
}

mod by_a_fleet {
    breakerbox_testkit::store_conformance!(crate::server::as_fleet());
}

mod on_a_cluster {
    breakerbox_testkit::store_conformance!(crate::server::on_cluster());
}
