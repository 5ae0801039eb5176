//! canopydb 0.2: each write is one transaction whose log is synced.

#[macro_use]
mod engine;
use engine::*;

use canopydb::Database;
use std::path::Path;

struct Canopy(Database);

impl Engine for Canopy {
    fn open(folder: &Path, _: Option<u64>) -> Outcome<Self> {
        std::fs::create_dir_all(folder.join("db"))?;
        let opened = Self(Database::new(folder.join("db"))?);
        opened.write(&[])?; // creates the tree
        Ok(opened)
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let transaction = self.0.begin_read()?;
        let Some(tree) = transaction.get_tree(b"records")? else { return Ok(None) };
        Ok(tree.get(key)?.map(|value| value.to_vec()))
    }

    fn write(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Outcome<()> {
        let transaction = self.0.begin_write()?;
        {
            let mut tree = transaction.get_or_create_tree(b"records")?;
            for &(key, value) in changes {
                match value {
                    Some(value) => tree.insert(key, value)?,
                    None => drop(tree.delete(key)?),
                }
            }
        }
        transaction.commit_with(true)?;
        Ok(())
    }
}

driver!(Canopy, c"sync", c"commit_with(sync)");
