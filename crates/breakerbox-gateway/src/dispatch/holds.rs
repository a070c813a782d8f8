//! Which deliveries are held though they are due, for those who show deliveries.

use breakerbox_model::objects::{LaneId, Priority};

use super::dispatcher::Dispatch;

/// Says which deliveries are held, as this process sees it now.
pub trait LaneHolds: Send + Sync + 'static {
    /// Whether deliveries of this priority wait until a time, whatever is due: their lane sleeps, or the throttle of their circuit
    /// holds them. Without a lane (a dynamic URL, a reminder) only the throttle is looked at.
    fn is_held(&self, lane: Option<LaneId>, circuit: &str, priority: Priority) -> bool;
}

impl LaneHolds for Dispatch {
    fn is_held(&self, lane: Option<LaneId>, circuit: &str, priority: Priority) -> bool {
        let now = self.now();
        let lanes = self.lanes();
        match lane {
            Some(lane) => lanes.is_held(lane, priority, now),
            None => lanes.is_held_by(circuit, priority, now),
        }
    }
}
