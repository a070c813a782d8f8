//! The requirements for every durable queue, by operation, and a model that it is compared with. The cases depend
//! only on [`Rig`](rig::Rig), which a backend implements in order to run them.

pub mod claim;
pub mod crash;
pub mod fan_out;
pub mod maintenance;
pub mod model;
pub mod races;
pub mod rig;
pub mod settle;
pub mod submit;

/// Defines one test for each case of the queue suite. The argument is a type that implements
/// [`Rig`](crate::conformance::queue::rig::Rig).
#[macro_export]
macro_rules! queue_conformance {
    ($rig:ty) => {
        $crate::queue_conformance! { @ $rig =>
            submit: events_go_to_the_endpoints_that_want_their_type what_is_taken_comes_with_its_payload_and_the_rest_is_woken what_is_not_due_is_not_taken the_same_key_gets_the_same_answer a_key_is_forgotten_after_a_day a_key_is_its_tenants_own a_full_backlog_refuses_and_recovers bytes_count_for_each_delivery the_reserve_of_the_disk_is_for_settlements a_batch_is_accepted_whole_or_not_at_all urls_of_one_circuit_share_a_lane an_answer_that_nobody_waited_for_is_given_back;
            claim: what_is_due_is_claimed_once_the_longest_due_first priorities_are_claimed_apart a_claim_says_when_the_rest_is_due a_probe_prefers_what_is_due_and_has_not_failed_one a_probe_takes_the_highest_priority_first a_probe_pulls_forward_what_backs_off a_poison_payload_does_not_keep_a_lane_shut a_delivery_is_pulled_forward_once_in_each_wait what_was_pulled_forward_is_known_after_a_crash nothing_is_pulled_before_its_time what_has_expired_is_never_leased;
            crash: whatever_was_answered_is_there_after_a_crash;
            fan_out: an_accept_writes_a_bounded_part_and_a_job_the_rest a_batch_shares_the_bound_of_its_accept limits_count_all_of_it_at_once it_goes_to_the_endpoints_of_the_accept deleted_endpoints_end_as_cancelled a_crash_between_pieces_loses_and_repeats_nothing tenants_take_turns a_repetition_while_it_is_under_way_gets_the_same_answer what_is_under_way_is_not_pruned many_accepts_in_one_commit_share_a_bound the_rest_waits_until_its_time_and_expires;
            races: many_tasks_deliver_each_event_once the_same_key_at_once_is_accepted_once;
            settle: every_end_is_kept a_retry_waits_until_it_is_due only_the_current_lease_settles leases_of_an_earlier_start_are_void what_is_handed_back_waits_at_its_old_place;
            maintenance: a_lease_that_ended_is_reclaimed_and_its_lane_told what_waits_too_long_is_given_up finished_work_is_pruned_when_it_was_kept_long_enough pruning_is_bounded_and_gets_everything keys_are_pruned_after_a_day what_waits_for_a_deleted_endpoint_is_cancelled_bit_by_bit what_is_in_flight_to_a_deleted_endpoint_is_not_tried_again lanes_in_which_something_waits_are_found_page_by_page lanes_of_dynamic_urls_go_when_they_are_not_used whether_a_lane_can_be_probed;
        }

        #[test]
        fn a_queue_answers_as_its_model_does() {
            $crate::conformance::queue::model::a_queue_answers_as_its_model_does::<$rig>();
        }
    };
    (@ $rig:ty => $($file:ident: $($case:ident)*;)*) => {$(
        mod $file {
            #[allow(unused_imports, reason = "the rig may be named by a path from here")]
            use super::*;

            $(
                #[tokio::test]
                async fn $case() {
                    $crate::conformance::queue::$file::$case::<$rig>().await;
                }
            )*
        }
    )*};
}
