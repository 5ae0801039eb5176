//! sled 0.34 and 1: each write is followed by a flush.

#[macro_use]
mod engine;
use engine::*;

use std::path::Path;

struct Sled(sled::Db);

impl Engine for Sled {
    fn open(folder: &Path, _: Option<u64>) -> Outcome<Self> {
        Ok(Self(sled::Config::default().path(folder.join("db")).open()?))
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.0.get(key)?.map(|value| value.to_vec()))
    }

    fn write(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Outcome<()> {
        for &(key, value) in changes {
            match value {
                Some(value) => self.0.insert(key, value)?,
                None => self.0.remove(key)?,
            };
        }
        self.0.flush()?;
        Ok(())
    }
}

driver!(Sled, c"sync", c"flush after each write");
