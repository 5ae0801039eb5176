//! sled 0.34 and 1: each write is followed by a flush.

#[macro_use]
mod engine;
use engine::*;

use std::path::Path;
use std::sync::Mutex;

struct Sled(Mutex<sled::Db>); // sled 1 has handles for one thread each

impl Engine for Sled {
    fn open(folder: &Path, _: Option<u64>) -> Outcome<Self> {
        Ok(Self(Mutex::new(sled::Config::default().path(folder.join("db")).open()?)))
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let db = self.0.lock().map_err(|error| error.to_string())?;
        Ok(db.get(key)?.map(|value| value.to_vec()))
    }

    fn write(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Outcome<()> {
        let db = self.0.lock().map_err(|error| error.to_string())?;
        for &(key, value) in changes {
            match value {
                Some(value) => db.insert(key, value)?,
                None => db.remove(key)?,
            };
        }
        db.flush()?;
        Ok(())
    }
}

driver!(Sled, c"sync", c"flush after each write");
