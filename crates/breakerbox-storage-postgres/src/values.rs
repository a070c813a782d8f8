//! The parameters of statements. Statements are not prepared, so each parameter names its type itself.

use tokio_postgres::types::{ToSql, Type};

/// A value that can be a parameter of a statement.
pub trait Value: ToSql + Sync {
    /// Returns the type of the value in SQL.
    fn sql_type(&self) -> Type;
}

/// A type of parameters.
pub trait HasSqlType {
    /// The type in SQL.
    const TYPE: Type;
}

/// A type whose lists can be parameters.
pub trait HasArrayType {
    /// The type of a list in SQL.
    const ARRAY: Type;
}

impl<T: HasSqlType + ToSql + Sync> Value for T {
    fn sql_type(&self) -> Type {
        T::TYPE
    }
}

macro_rules! sql_types {
    ($($rust:ty: $sql:ident $array:ident,)*) => {$(
        impl HasSqlType for $rust {
            const TYPE: Type = Type::$sql;
        }

        impl HasArrayType for $rust {
            const ARRAY: Type = Type::$array;
        }
    )*};
}

sql_types! {
    i64: INT8 INT8_ARRAY,
    i32: INT4 INT4_ARRAY,
    i16: INT2 INT2_ARRAY,
    bool: BOOL BOOL_ARRAY,
    &str: TEXT TEXT_ARRAY,
    String: TEXT TEXT_ARRAY,
    &[u8]: BYTEA BYTEA_ARRAY,
    Vec<u8>: BYTEA BYTEA_ARRAY,
}

impl<T: HasSqlType> HasSqlType for Option<T> {
    const TYPE: Type = T::TYPE;
}

impl<T: HasArrayType> HasArrayType for Option<T> {
    const ARRAY: Type = T::ARRAY;
}

impl<T: HasArrayType> HasSqlType for Vec<T> {
    const TYPE: Type = T::ARRAY;
}

/// Returns parameters with their types, as the client library takes them.
pub(crate) fn typed<'v>(values: &[&'v dyn Value]) -> Vec<(&'v (dyn ToSql + Sync), Type)> {
    values.iter().map(|value| (*value as &(dyn ToSql + Sync), value.sql_type())).collect()
}
