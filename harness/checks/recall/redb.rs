//! redb 4, by the store that is measured.

#[path = "../../shims/rust/src/kv.rs"]
mod kv;

#[path = "../../shims/rust/src/redb.rs"]
mod store;
