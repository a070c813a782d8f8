//! Valid, expired and revoked API keys.

use std::time::Duration;

use breakerbox_model::objects::{ApiKey, ApiKeyText, Scope, Scopes};

use crate::RecordsError;
use crate::records::{NewApiKey, PageOf};

use super::world::World;

fn new(text: &ApiKeyText, tenant: Option<&str>) -> NewApiKey {
    NewApiKey {
        hash: text.hash(),
        name: "ci".into(),
        scopes: Scopes::of(&[Scope::Read, Scope::Send]),
        tenant: tenant.map(|tenant| tenant.parse().unwrap()),
        expires_at: None,
    }
}

pub async fn a_key_is_good_until_it_expires_or_is_revoked(world: &mut World) {
    let (one, other) = (ApiKeyText::random(), ApiKeyText::random());
    let expires_at = world.now() + Duration::from_secs(60);
    let expiring = NewApiKey { expires_at: Some(expires_at), ..new(&one, None) };
    let expiring = world.records.create_api_key(expiring).await.unwrap();
    let revoked = world.records.create_api_key(new(&other, None)).await.unwrap();
    let twice = world.records.create_api_key(new(&other, None)).await;
    assert!(matches!(twice, Err(RecordsError::Exists { .. })), "{twice:?}");
    for _ in 0..2 {
        let found = world.directory.api_key(&one.hash(), world.now()).unwrap();
        assert_eq!(*found, expiring);
        assert!(world.directory.api_key(&one.hash(), expires_at).is_none(), "expired");
        assert!(world.directory.api_key(&other.hash(), world.now()).is_some());
        assert!(world.directory.api_key(&ApiKeyText::random().hash(), world.now()).is_none());
        world.restart().await;
    }
    let first = world.records.revoke_api_key(revoked.id).await.unwrap();
    assert_eq!(first.revoked_at, Some(world.now()));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.records.revoke_api_key(revoked.id).await.unwrap(), first, "once is enough");
    for _ in 0..2 {
        assert!(world.directory.api_key(&other.hash(), world.now()).is_none());
        assert_eq!(world.records.api_key(revoked.id).await.unwrap(), first);
        world.restart().await;
    }
}

pub async fn keys_are_listed_and_go_with_their_tenant(world: &mut World) {
    world.tenant("acme").await;
    let text = ApiKeyText::random();
    let all = world.records.create_api_key(new(&ApiKeyText::random(), None)).await.unwrap();
    let theirs = world.records.create_api_key(new(&text, Some("acme"))).await.unwrap();
    let nobodys = world.records.create_api_key(new(&ApiKeyText::random(), Some("nobody"))).await;
    assert!(matches!(nobodys, Err(RecordsError::Missing { what: "tenant", .. })), "{nobodys:?}");
    let listed = async |world: &World, tenant: Option<&str>| -> Vec<ApiKey> {
        let tenant = tenant.map(|tenant| tenant.parse().unwrap());
        world.records.api_keys(tenant.as_ref(), &PageOf::default()).await.unwrap().items
    };
    assert_eq!(listed(world, None).await, [theirs.clone(), all.clone()]);
    assert_eq!(listed(world, Some("acme")).await, [theirs]);
    world.records.delete_tenant(&"acme".parse().unwrap(), None).await.unwrap();
    for _ in 0..2 {
        assert_eq!(listed(world, None).await, std::slice::from_ref(&all));
        assert!(world.directory.api_key(&text.hash(), world.now()).is_none());
        world.restart().await;
    }
}
