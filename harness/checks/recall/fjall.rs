//! fjall 2: an LSM tree whose journal is synced after each write.

#[macro_use]
mod engine;
use engine::*;

use fjall::{Config, Keyspace, PartitionCreateOptions, PartitionHandle, PersistMode};
use std::path::Path;

struct Fjall {
    keyspace: Keyspace,
    records: PartitionHandle,
}

impl Engine for Fjall {
    fn open(folder: &Path, write_buffer: Option<u64>) -> Outcome<Self> {
        let mut options = PartitionCreateOptions::default();
        if let Some(bytes) = write_buffer {
            options = options.max_memtable_size(bytes.try_into()?);
        }
        let keyspace = Config::new(folder).open()?;
        let records = keyspace.open_partition("records", options)?;
        Ok(Self { keyspace, records })
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.records.get(key)?.map(|value| value.to_vec()))
    }

    fn write(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Outcome<()> {
        for &(key, value) in changes {
            match value {
                Some(value) => self.records.insert(key, value)?,
                None => self.records.remove(key)?,
            };
        }
        Ok(self.keyspace.persist(PersistMode::SyncData)?)
    }
}

driver!(Fjall, c"sync", c"PersistMode::SyncData after each write");
