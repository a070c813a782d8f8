//! Paged listings.

use breakerbox_model::objects::TenantId;
use breakerbox_storage::records::{Cursor, MAX_PAGE, Page, PageOf, RecordsError, Refused};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::problem::{Code, Problem};
use super::reading::fields::Text;

/// The page of a listing to return.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Paging {
    /// Maximum number of items. Default: 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
    pub(super) limit: Option<Text<Limit>>,
    /// The `next` value of the previous page. Omit it, or leave it empty, for the first page.
    pub(super) cursor: Option<String>,
}

/// The page of a listing to return, for one tenant or all.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PagingOfTenant {
    /// Only items of this tenant.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    pub(super) tenant: Option<Text<TenantId>>,
    /// Maximum number of items. Default: 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
    limit: Option<Text<Limit>>,
    /// The `next` value of the previous page. Omit it, or leave it empty, for the first page.
    cursor: Option<String>,
}

impl PagingOfTenant {
    /// Returns the tenant filter and the page.
    pub(super) fn split(self) -> (Option<TenantId>, PageOf) {
        let paging = Paging { limit: self.limit, cursor: self.cursor };
        (self.tenant.map(|tenant| tenant.0), paging.into())
    }
}

/// The maximum number of items on a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit(pub(super) usize);

impl std::str::FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = text.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
        limit.map(Self).ok_or_else(|| format!("must be a whole number from 1 to {MAX_PAGE}"))
    }
}

impl From<Paging> for PageOf {
    fn from(paging: Paging) -> Self {
        let limit = paging.limit.map_or(Self::default().limit, |limit| limit.0.0);
        Self { after: paging.cursor.filter(|cursor| !cursor.is_empty()).map(Cursor), limit }
    }
}

/// One page of a listing.
#[derive(Serialize, ToSchema)]
#[schema(as = Page)]
pub(super) struct Listed<T> {
    /// The items. A page may have fewer than `limit`, or none, even if it is not the last.
    pub(super) items: Vec<T>,
    /// The `cursor` for the next page; null on the last page.
    pub(super) next: Option<String>,
}

impl<T> Listed<T> {
    /// Builds the response for a page, converting each item with `show`.
    pub(super) fn of<U>(page: Page<U>, show: impl FnMut(U) -> T) -> Self {
        Self { items: page.items.into_iter().map(show).collect(), next: page.next.map(|cursor| cursor.0) }
    }
}

impl From<RecordsError> for Problem {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::Missing { what, name } => Self::not_found(what, &name),
            RecordsError::Exists { what, name } => {
                Self::new(Code::AlreadyExists, format!("the {what} {name:?} already exists"))
            }
            RecordsError::Changed { what, name } => Self::new(
                Code::Changed,
                format!("the {what} {name:?} has another `etag` than `if-match`; read it again"),
            ),
            RecordsError::KeyReused => Self::key_reused(),
            RecordsError::AlreadyCreated { id } => Self::new(
                Code::AlreadyCreated,
                format!(
                    "an earlier request with this Idempotency-Key created {id}; its response contained a secret and is not repeated"
                ),
            )
            .of_id(&id),
            RecordsError::Refused(Refused(why)) => match why.downcast::<Self>() {
                Ok(problem) => *problem,
                Err(other) => Self::internal("an edit", &*other),
            },
            RecordsError::InUse(_) | RecordsError::State { .. } | RecordsError::ReminderState { .. } => {
                Self::new(Code::WrongState, error.to_string())
            }
            RecordsError::Unreadable { .. } => Self::new(Code::Internal, error.to_string()),
            RecordsError::BacklogFull { .. } => Self::new(Code::BacklogFull, error.to_string()),
            RecordsError::EndpointsFull { .. } => Self::new(Code::EndpointsFull, error.to_string()),
            RecordsError::RemindersFull { .. } => Self::new(Code::RemindersFull, error.to_string()),
            RecordsError::DiskReserve { .. } => Self::new(Code::DiskReserve, error.to_string()),
            RecordsError::OneOf { index, error } => Self::from(*error).within(&format!("reminders[{index}]")),
            RecordsError::Cursor => {
                Self::new(Code::InvalidQuery, "cursor: must be the `next` of an earlier page of this listing")
                    .of_field("cursor")
            }
            RecordsError::Policy(why) => Self::new(Code::InvalidField, within_policy(&why)).of_policy(),
            RecordsError::ReminderPolicy(why) => {
                Self::new(Code::InvalidField, format!("reminders.{}", within_policy(&why))).of_policy()
            }
            RecordsError::EndpointPolicy { endpoint, why } => Self::new(
                Code::InvalidField,
                format!(
                    "{}; together with the policy of the endpoint {endpoint}: change that policy first",
                    within_policy(&why)
                ),
            )
            .of_policy(),
            RecordsError::Url(error) => Self::new(Code::InvalidField, error.to_string()).of_field("url"),
            RecordsError::Queue(error) => error.into(),
        }
    }
}

/// Prefixes a policy error with `policy.`, so that it names the field within the request body.
fn within_policy(why: &str) -> String {
    if why.starts_with("policy: ") { why.to_owned() } else { format!("policy.{why}") }
}
