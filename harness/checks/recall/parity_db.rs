//! ParityDB: a commit returns before the log is written, so a crash may lose the last ones.

#[macro_use]
mod engine;
use engine::*;

use parity_db::{Db, Options};
use std::path::Path;

struct Parity(Db);

impl Engine for Parity {
    fn open(folder: &Path, _: Option<u64>) -> Outcome<Self> {
        let mut options = Options::with_columns(&folder.join("db"), 1);
        options.columns[0].btree_index = true;
        Ok(Self(Db::open_or_create(&options)?))
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.0.get(0, key)?)
    }

    fn write(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Outcome<()> {
        let changes = changes.iter().map(|(key, value)| (0, *key, value.map(<[u8]>::to_vec)));
        Ok(self.0.commit(changes)?)
    }
}

driver!(Parity, c"none", c"sync_wal and sync_data, as shipped; a commit does not wait for them");
