//! SurrealKV 0.11 to 0.21: each write is one transaction with Durability::Immediate.

#[macro_use]
mod engine;
use engine::*;

use std::path::Path;
use surrealkv::{Durability, Tree, TreeBuilder};
use tokio::runtime::{Builder, Runtime};

struct Surreal {
    tree: Tree,
    runtime: Runtime,
}

impl Engine for Surreal {
    fn open(folder: &Path, write_buffer: Option<u64>) -> Outcome<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let mut builder = TreeBuilder::new().with_path(folder.join("tree"));
        if let Some(bytes) = write_buffer {
            builder = builder.with_max_memtable_size(bytes.try_into()?);
        }
        let tree = runtime.block_on(async { builder.build() })?;
        Ok(Self { tree, runtime })
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.tree.begin()?.get(key)?.map(|value| value.to_vec()))
    }

    fn write(&self, changes: &[(&[u8], Option<&[u8]>)]) -> Outcome<()> {
        let mut transaction = self.tree.begin()?.with_durability(Durability::Immediate);
        for &(key, value) in changes {
            match value {
                Some(value) => transaction.set(key, value)?,
                None => transaction.delete(key)?,
            }
        }
        Ok(self.runtime.block_on(transaction.commit())?)
    }

    fn close(self) -> Outcome<()> {
        Ok(self.runtime.block_on(self.tree.close())?)
    }
}

driver!(Surreal, c"sync", c"Durability::Immediate");
