//! Reports outages on the gateway's own side: to the operator, and in the health report.

use std::sync::Arc;

use breakerbox_core::own_outage::Outage;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::Moment;
use breakerbox_storage::clock::StoreClock;

use super::history::HistoryWriter;
use crate::dispatch::{Dispatch, OutageReport};

/// Acts on outages until the future is dropped. Notifies the operator of the beginning and the end. If the fault turns
/// out not to be on the gateway's side, tenants are notified of the circuits that are still open.
pub(super) async fn watch(dispatch: Arc<Dispatch>, history_writer: HistoryWriter, clock: StoreClock) {
    let report = move |news| match news {
        OutageReport::Began(outage) => {
            let since = clock.drift().noticeable().to_wall(outage.since);
            history_writer.notify(Notification::network_lost(&outage, since));
        }
        OutageReport::Ended { outage, end, at, was_reported } => {
            let drift = clock.drift().noticeable();
            if was_reported {
                let (since, at) = (drift.to_wall(outage.since), drift.to_wall(at));
                history_writer.notify(Notification::network_back(since, end, at));
            }
        }
    };
    dispatch.watch_own_outages(report).await;
}

/// Returns the reason why the gateway is degraded during an outage on its side, and what to do.
pub(super) fn degraded(outage: &Outage) -> String {
    let Outage { lost, keys, hosts, .. } = outage;
    format!(
        "network: {lost} of {keys} destinations on {hosts} hosts can't be reached since {}, so the fault is on the gateway's side; \
         no tenant is notified, and no circuit is disabled; check the gateway's network, its DNS servers and the egress proxy",
        Moment(outage.since)
    )
}
