//! The stores in Rust, one feature and one shared object each.

mod kv;

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "redb")]
mod redb;
