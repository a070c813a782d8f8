//! The requirements for every database that implements the records. The checks use a [`World`](world::World), and so
//! do not depend on the backend.

pub mod api_keys;
pub mod deliveries;
pub mod endpoints;
pub mod history;
pub mod lanes;
pub mod reminders;
pub mod reminders_seen;
pub mod resends;
pub mod tenants;
pub mod world;

/// Defines one test for each check of the records suite. The argument is an expression for a future whose result
/// mutably dereferences to a [`World`](crate::conformance::records::world::World).
#[macro_export]
macro_rules! records_conformance {
    ($make:expr) => {
        $crate::records_conformance! { @ $make =>
            tenants:
                a_tenant_is_as_it_was_created_and_after_a_restart_too
                two_who_change_a_tenant_notice_each_other
                a_tenants_defaults_reach_its_endpoints
                a_policy_that_cannot_be_used_is_refused_and_nothing_changes
                a_tenant_in_use_stays
                a_name_can_be_used_again
                a_resend_ends_with_its_tenant
                history_stays_with_its_tenant
                two_secrets_sign_during_a_rotation_and_one_after;
            endpoints:
                an_endpoint_is_as_it_was_created_and_after_a_restart_too
                an_endpoint_gets_what_is_accepted_after_its_creation
                waiting_deliveries_follow_an_endpoint_to_its_new_url
                two_who_change_an_endpoint_notice_each_other
                a_disabled_endpoint_says_why
                deleting_cancels_what_waits_and_says_how_much
                what_a_deletion_cancels_is_shown_so_at_once
                a_tenant_has_a_limited_number_of_endpoints
                a_fan_out_under_way_is_shown_and_counted
                what_is_in_flight_at_a_deletion_is_not_tried_again
                watchers_hear_after_the_commit;
            lanes:
                lanes_say_how_much_is_unfinished_and_what_is_due_first
                lanes_are_listed_page_by_page_and_by_tenant
                a_deleted_endpoint_has_no_lane;
            api_keys:
                a_key_is_good_until_it_expires_or_is_revoked
                keys_are_listed_and_go_with_their_tenant;
            deliveries:
                an_event_and_its_deliveries_are_shown
                the_latest_attempt_of_a_delivery_and_of_a_lane_is_known_after_a_restart
                deliveries_are_found_by_all_that_can_be_said
                events_are_listed_without_their_payloads
                attempts_are_listed_the_newest_first
                a_waiting_delivery_can_be_cancelled_and_nothing_else
                a_finished_delivery_waits_again_with_all_its_attempts
                a_resent_delivery_lives_as_long_as_its_endpoint_says
                a_resend_needs_room_and_an_endpoint
                a_dynamic_delivery_is_resent_to_its_url;
            reminders:
                a_reminder_is_as_it_was_created_and_after_a_restart_too
                each_run_is_fired_once_and_the_next_one_is_waited_for
                a_decision_from_before_is_not_carried_out
                a_run_that_was_fired_survives_a_restart
                what_a_run_ends_with_decides
                a_run_that_is_called_off_goes_on_with_the_next
                a_run_that_waited_too_long_counts_as_failed
                missed_runs_fire_as_catch_up_says
                a_parked_run_stands_for_the_latest
                a_pause_withdraws_what_waits_and_skips_what_falls_into_it
                a_one_off_that_was_paused_fires_when_it_goes_on
                what_is_in_flight_at_a_pause_is_not_tried_again
                a_cancelled_reminder_never_fires_again
                a_run_now_is_besides_the_schedule
                a_change_reaches_a_run_that_waits
                another_schedule_counts_from_now_on
                limits_count_what_has_not_ended
                references_are_unique_within_a_tenant
                reminders_are_listed_and_their_runs_are_history
                a_tenant_with_reminders_stays
                ended_reminders_are_forgotten;
            reminders_seen:
                several_are_created_or_none
                a_webhook_id_is_one_runs_for_ever
                a_cancelled_reminders_name_is_free
                the_latest_run_is_shown_whatever_the_schedule_has_come_to
                a_resent_run_waits_with_the_reminders;
            resends:
                a_job_resends_what_failed_and_nothing_else
                jobs_take_turns_and_go_on_after_a_restart
                a_job_waits_for_room_and_lets_others_pass
                a_job_can_be_stopped
                a_job_skips_what_has_no_endpoint;
            history:
                each_change_is_remembered_once
                changes_are_listed_by_time_and_forgotten
                changes_are_found_by_all_that_can_be_said
                a_page_of_changes_looks_at_its_share;
        }
    };
    (@ $make:expr => $($file:ident: $($check:ident)*;)*) => {$($(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $check() {
            let mut world = $make.await;
            $crate::conformance::records::$file::$check(&mut world).await;
        }
    )*)*};
}
