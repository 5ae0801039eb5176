//! The least that the crash explorer needs of an engine, and a driver for it. There is no order: what
//! the explorer checks, it reads by key.

use std::ffi::c_int;
use std::path::Path;

#[path = "../../shims/rust/src/kv.rs"]
mod kv;
pub use kv::*;

/// An open engine. A write has returned when the engine says that it is as durable as `driver!` tells.
pub trait Engine: Sized + Sync {
    /// `write_buffer`: bytes that the engine collects before it writes a table; None: as shipped.
    fn open(folder: &Path, write_buffer: Option<u64>) -> Outcome<Self>;
    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>>;
    /// Stores all values, and removes the keys without one, in this order.
    fn write(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Outcome<()>;
    fn close(self) -> Outcome<()> {
        Ok(())
    }
}

pub struct Opened<E>(E);

impl<E: Engine> Store for Opened<E> {
    fn open(folder: &Path, options: Options) -> Outcome<Self> {
        Ok(Self(E::open(folder, options.number("write_buffer"))?))
    }

    fn close(self) -> Outcome<()> {
        self.0.close()
    }

    fn get(&self, key: &[u8], found: impl FnOnce(&[u8]) -> c_int) -> Outcome<c_int> {
        Ok(self.0.get(key)?.map_or(KV_NOT_FOUND, |value| found(&value)))
    }

    fn write(&self, mode: c_int, records: &[kv_record]) -> Outcome<c_int> {
        if mode != KV_PUT {
            let status = allowed(mode, self.0.get(records[0].key.bytes())?.is_some());
            if status != KV_OK {
                return Ok(status);
            }
        }
        let mut changes = Vec::with_capacity(records.len());
        for record in records {
            let value = (mode != KV_REMOVE).then(|| record.value.bytes());
            changes.push((record.key.bytes(), value));
        }
        self.0.write(&changes)?;
        Ok(KV_OK)
    }

    fn scan(&self, _: &[u8], _: bool, _: impl FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
        Err("it has no such call".into())
    }

    fn sync(&self) -> Outcome<()> {
        Ok(()) // each write was
    }

    fn effective_options(&self) -> Outcome<String> {
        Ok("sync=each write\n".into())
    }
}

/// The driver of an engine whose writes have this durability, by these means.
macro_rules! driver {
    ($engine:ty, $durability:literal, $means:literal) => {
        static SETTINGS: [kv_setting; 4] = [
            kv_setting::allows(c"durability", $durability, $means),
            kv_setting::lacks(c"durability", c"*", c"not offered here"),
            kv_setting::number(c"write_buffer", 1024, c"bytes collected before a table is written"),
            kv_setting::END,
        ];

        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static kv_driver: kv_driver = kv_driver {
            name: c"recalled".as_ptr(),
            max_key: u16::MAX as u64,
            max_value: 1 << 26,
            settings: SETTINGS.as_ptr(),
            default_durability: $durability.as_ptr(),
            scan: None,
            ..driver::<Opened<$engine>>()
        };
    };
}
