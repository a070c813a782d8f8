//! Converts the settings for each part of the gateway.

use breakerbox_egress::host::descriptors::{self, Wanted};
use breakerbox_egress::{Proxy, SendSettings, Trust};
use breakerbox_storage::Defaults;
use breakerbox_storage::secrets::KeySource;

use super::{API_GRACE, StartError};
use crate::api::{self, Connections};
use crate::config::Config;
use crate::dispatch::Settings;

pub(super) fn dispatch(config: &Config) -> Settings {
    Settings {
        slots: config.delivery.slots,
        lease_margin: config.delivery.lease_margin,
        ..Settings::default()
    }
}

pub(super) fn send(config: &Config) -> Result<SendSettings, StartError> {
    let egress = &config.egress;
    let proxy = egress.proxy.as_ref().map(Proxy::new).transpose()?;
    Ok(SendSettings {
        addresses: egress.addresses(),
        proxy,
        trust: Trust { files: egress.ca_files.clone(), ..Trust::default() },
        response_read: usize::try_from(config.delivery.response_read).unwrap_or(usize::MAX),
        response_kept: usize::try_from(config.delivery.response_kept).unwrap_or(usize::MAX),
        ..SendSettings::default()
    })
}

pub(super) fn key_source(config: &Config) -> KeySource {
    match &config.secrets.master_key {
        Some(key) => KeySource::Variable(key.reveal().into()),
        None => KeySource::File(config.master_key_file()),
    }
}

pub(super) fn defaults(config: &Config) -> Defaults {
    let delivery = &config.delivery;
    Defaults {
        timeout: delivery.timeout,
        max_in_flight: delivery.max_in_flight,
        retry: delivery.retry.clone(),
        expires_after: delivery.expires_after,
        backlog: config.limits.backlog,
        endpoints: config.limits.endpoints,
        policy: Some(config.policy.set_values()),
        built_in_policy: Some(config.policy.built_in()),
        notification_targets: config.notify.targets(),
    }
}

pub(super) fn limits(config: &Config) -> api::Limits {
    let limits = &config.limits;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    api::Limits {
        payload: size(limits.payload),
        batch_events: limits.batch_events as usize,
        batch_bytes: size(limits.batch_bytes),
        permit_timeout: config.permits.timeout,
        bodies: size(limits.body_memory),
        body_timeout: limits.body_timeout,
        tenant_share: limits.tenant_share,
        open_metrics: config.metrics.public,
        mail: config.notify.smtp_url.is_some(),
        auth_failures: limits.auth_failures,
        connections: Connections {
            most: limits.connections as usize,
            address_share: limits.address_share,
            first_request_timeout: limits.first_request_timeout,
            header_timeout: limits.header_timeout,
            grace: API_GRACE,
            ..Connections::default()
        },
    }
}

/// Reduces the connection limits to fit the open-file limit of the process. Returns the reason if the settings do not
/// fit, otherwise `None`.
pub(super) fn fit_descriptors(
    config: &Config,
    limits: &mut api::Limits,
    sending: &mut SendSettings,
) -> Option<String> {
    let wanted = Wanted {
        connections: limits.connections.most,
        slots: config.delivery.slots as usize,
        kept: sending.max_connections_kept,
    };
    let shares = descriptors::share(descriptors::limit(), wanted);
    (limits.connections.most, sending.max_connections_kept) = (shares.connections, shares.kept);
    shares.shortfall
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_configured_about_answers_reaches_the_sender() {
        let mut config = Config::default();
        (config.delivery.response_read, config.delivery.response_kept) = (7_000, 70);
        config.egress.allow = vec!["10.0.0.0/8".parse().unwrap()];
        let settings = send(&config).unwrap();
        assert_eq!((settings.response_read, settings.response_kept), (7_000, 70));
        assert!(settings.addresses.check([10, 0, 0, 7].into()).is_ok());
        config.egress.deny = vec!["10.0.0.0/24".parse().unwrap(), "93.184.215.0/24".parse().unwrap()];
        let settings = send(&config).unwrap();
        for denied in [[10, 0, 0, 7], [93, 184, 215, 14]] {
            assert!(settings.addresses.check(denied.into()).is_err(), "{denied:?}");
        }
    }
}
