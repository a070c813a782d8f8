//! Reports what lanes wait for, for the API that shows deliveries, endpoints and lanes.

use breakerbox_model::delivery::lanes::LaneWait;
use breakerbox_model::objects::{LaneId, Priority};

use super::dispatcher::Dispatch;

/// Reports what lanes wait for, according to the current state of this process.
pub trait LaneWaits: Send + Sync + 'static {
    /// Returns what deliveries of each lane and priority wait for; without a priority, what the lane's next delivery
    /// waits for. Dispatch pauses during the call, so pass at most one page of lanes.
    fn waits(&self, lanes: &[(LaneId, Option<Priority>)]) -> Vec<LaneWait>;
}

impl LaneWaits for Dispatch {
    fn waits(&self, wanted: &[(LaneId, Option<Priority>)]) -> Vec<LaneWait> {
        let now = self.now();
        let lanes = self.lanes();
        wanted.iter().map(|(lane, priority)| lanes.wait(*lane, *priority, now)).collect()
    }
}
