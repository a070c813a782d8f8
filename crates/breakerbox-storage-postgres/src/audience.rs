//! The endpoints that an event goes to, in the form in which a fan-out stores them: 16 bytes each.

use std::time::Duration;

use breakerbox_model::objects::LaneId;
use breakerbox_storage::EndpointRoute;
use breakerbox_storage::stored::codes::{id, whole};

/// The number of bytes per endpoint.
pub(crate) const ENTRY: usize = 16;

/// Adds an endpoint to a stored audience.
pub(crate) fn push(audience: &mut Vec<u8>, route: EndpointRoute) {
    let expires_after = route.expires_after.map_or(0, |after| after.as_micros());
    let expires_after = i64::try_from(expires_after).unwrap_or(i64::MAX);
    audience.extend_from_slice(&route.lane.number().to_le_bytes());
    audience.extend_from_slice(&expires_after.to_le_bytes());
}

/// Decodes the endpoints in a part of a stored audience.
pub(crate) fn endpoints(bytes: &[u8]) -> impl Iterator<Item = EndpointRoute> {
    bytes.as_chunks::<ENTRY>().0.iter().map(|entry| {
        let (lane, expires_after) = entry.split_at(ENTRY / 2);
        let read = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let expires_after = Some(whole(read(expires_after))).filter(|micros| *micros > 0);
        EndpointRoute {
            lane: LaneId(id(read(lane))),
            expires_after: expires_after.map(Duration::from_micros),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audience_is_read_as_it_was_written() {
        let route = |lane, expires_after| EndpointRoute { lane: LaneId(id(lane)), expires_after };
        let routes = [
            route(7, None),
            route(i64::MAX, Some(Duration::from_micros(1))),
            route(0, Some(Duration::from_secs(86_400))),
        ];
        let mut audience = Vec::new();
        routes.iter().for_each(|route| push(&mut audience, *route));
        assert_eq!(endpoints(&audience).collect::<Vec<_>>(), routes);
        assert_eq!(endpoints(&audience[ENTRY..]).collect::<Vec<_>>(), routes[1..]);
    }
}
