//! Declares two bodies from one list of fields: the bodies that create and change a resource have the same settings,
//! and must not drift apart.

/// Declares two request bodies with common fields: one creates a resource, the other changes it. Each may have fields
/// of its own. Types are in brackets, so that derive macros see them unexpanded.
macro_rules! bodies {
    (
        $(#[$create_meta:meta])*
        create $Create:ident { $($(#[$first_meta:meta])* $first:ident: [$($first_type:tt)*],)* }
        $(#[$change_meta:meta])*
        change $Change:ident { $($(#[$later_meta:meta])* $later:ident: [$($later_type:tt)*],)* }
        both { $($(#[$meta:meta])* $field:ident: [$($type:tt)*],)* }
    ) => {
        #[derive(serde::Deserialize, utoipa::ToSchema)]
        $(#[$create_meta])*
        #[serde(deny_unknown_fields)]
        pub(in crate::api) struct $Create {
            $($(#[$first_meta])* pub(in crate::api) $first: $($first_type)*,)*
            $(#[serde(default)] $(#[$meta])* $field: $($type)*,)*
        }

        #[derive(Default, serde::Deserialize, utoipa::ToSchema)]
        $(#[$change_meta])*
        #[serde(deny_unknown_fields)]
        pub(in crate::api) struct $Change {
            $(#[serde(default)] $(#[$later_meta])* $later: $($later_type)*,)*
            $(#[serde(default)] $(#[$meta])* $field: $($type)*,)*
        }

        impl $Create {
            /// Takes the common fields out of the body, as a change to be applied to the default settings.
            pub(in crate::api) fn take_settings(&mut self) -> $Change {
                $Change { $($later: Default::default(),)* $($field: std::mem::take(&mut self.$field),)* }
            }
        }
    };
}

pub(in crate::api) use bodies;
