//! redb 0.21 to 2: each write is one transaction, which as shipped is synced.

#[macro_use]
mod engine;
use engine::*;

#[allow(unused_imports)] // ReadableTable: before redb 2
use redb::{Database, ReadableTable, TableDefinition};
use std::path::Path;

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");

struct Redb(Database);

impl Engine for Redb {
    fn open(folder: &Path, _: Option<u64>) -> Outcome<Self> {
        let opened = Self(Database::create(folder.join("records.redb"))?);
        opened.write(&[])?; // creates the table
        Ok(opened)
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let transaction = self.0.begin_read()?;
        let table = transaction.open_table(RECORDS)?;
        let value = table.get(key)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn write(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Outcome<()> {
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(RECORDS)?;
            for &(key, value) in changes {
                match value {
                    Some(value) => table.insert(key, value)?,
                    None => table.remove(key)?,
                };
            }
        }
        Ok(transaction.commit()?)
    }
}

driver!(Redb, c"sync", c"each transaction is synced, as shipped");
