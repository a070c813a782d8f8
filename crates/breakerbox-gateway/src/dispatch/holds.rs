//! Reports which due deliveries are held back, for the API that shows deliveries.

use breakerbox_model::objects::{LaneId, Priority};

use super::dispatcher::Dispatch;

/// Reports which deliveries are held back, according to the current state of this process.
pub trait LaneHolds: Send + Sync + 'static {
    /// Returns whether due deliveries of this priority are held back: their lane sleeps, or their circuit's throttle
    /// holds them. Without a lane (a dynamic URL, a reminder), only the throttle is considered.
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
