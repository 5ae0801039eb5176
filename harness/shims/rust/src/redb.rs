//! redb: a copy-on-write B+ tree in one file. Each write is one transaction, which as shipped is
//! synced, and each get or scan reads in a transaction of its own.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::path::Path;

use ::redb::backends::FileBackend;
use ::redb::{Database, Durability, ReadableDatabase, StorageBackend, Table, TableDefinition};

use crate::kv::*;

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");
const SHIPPED: &str = "cache 1 GiB, pages 4 KiB";

static SETTINGS: [kv_setting; 12] = [
    kv_setting::allows(c"durability", c"none", c"Durability::None: commits wait in the process"),
    kv_setting::allows(
        c"durability",
        c"process",
        c"a storage backend of the harness whose sync does nothing: the operating system has each \
          commit; the engine ships no such level",
    ),
    kv_setting::lacks(
        c"durability",
        c"recoverable",
        c"it has no level between Durability::None, whose commits wait in the process, and \
          Durability::Immediate, which is sync",
    ),
    kv_setting::allows(c"durability", c"sync", c"Durability::Immediate, as shipped"),
    kv_setting::lacks(c"durability", c"*", c"its writes are atomic at every level"),
    kv_setting::number(c"memory", 64 << 10, c"all of it set_cache_size, of reads and writes"),
    kv_setting::allows(c"two_phase_commit", c"on", c"set_two_phase_commit: two syncs a commit"),
    kv_setting::allows(
        c"quick_repair",
        c"on",
        c"set_quick_repair: two syncs a commit, which also saves the allocator's state, so that \
          opening after a crash need not read the whole file",
    ),
    kv_setting::allows(c"compression", c"none", c"the engine has none"),
    kv_setting::lacks(c"compression", c"*", c"the engine has none"),
    kv_setting::allows(c"checks", c"on", c"check_integrity when the store is opened"),
    kv_setting::END,
];

struct Redb {
    db: Database,
    file: File,             // the database's own
    durability: Durability, // of a write
    two_phase_commit: bool,
    quick_repair: bool,
    shown: String,
}

/// A file that is never synced.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

impl Redb {
    /// Runs `change` in a transaction, which is kept if it returns KV_OK.
    fn transaction(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Table<&[u8], &[u8]>) -> Outcome<c_int>,
    ) -> Outcome<c_int> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(durability)?;
        transaction.set_two_phase_commit(self.two_phase_commit);
        transaction.set_quick_repair(self.quick_repair);
        let status = change(&mut transaction.open_table(RECORDS)?)?;
        if status == KV_OK {
            transaction.commit()?
        } else {
            transaction.abort()?
        }
        Ok(status)
    }
}

impl Store for Redb {
    fn open(folder: &Path, options: Options) -> Outcome<Self> {
        let level = options.given("durability").unwrap_or("sync");
        let mut file = File::options();
        file.read(true).write(true).create(true).truncate(false);
        let file = file.open(folder.join("records.redb"))?;
        let mut builder = Database::builder();
        let mut shown =
            format!("options=not read back by the API; if not listed, as shipped: {SHIPPED}\n");
        if let Some(bytes) = options.number("memory") {
            builder.set_cache_size(bytes.try_into()?);
            shown += &format!("cache={bytes}\n");
        }
        let backend = FileBackend::new(file.try_clone()?)?;
        let mut db = if level == "process" {
            builder.create_with_backend(Unsynced(backend))?
        } else {
            builder.create_with_backend(backend)?
        };
        if options.is("checks", "on") && !db.check_integrity()? {
            return Err("check_integrity failed, and the engine repaired the file".into());
        }
        let sync = if level == "sync" { "each transaction" } else { "off" };
        let opened = Self {
            db,
            file,
            durability: if level == "none" { Durability::None } else { Durability::Immediate },
            two_phase_commit: options.is("two_phase_commit", "on"),
            quick_repair: options.is("quick_repair", "on"),
            shown: shown + &format!("sync={sync}\n"),
        };
        opened.transaction(Durability::Immediate, |_| Ok(KV_OK))?; // creates the table
        Ok(opened)
    }

    fn close(self) -> Outcome<()> {
        if matches!(self.durability, Durability::None) {
            self.transaction(Durability::Immediate, |_| Ok(KV_OK))?; // keeps what waits
        }
        Ok(())
    }

    fn get(&self, key: &[u8], found: impl FnOnce(&[u8]) -> c_int) -> Outcome<c_int> {
        let table = self.db.begin_read()?.open_table(RECORDS)?;
        let value = table.get(key)?;
        Ok(value.map_or(KV_NOT_FOUND, |value| found(value.value())))
    }

    fn write(&self, mode: c_int, records: &[kv_record]) -> Outcome<c_int> {
        self.transaction(self.durability, |table| {
            for record in records {
                let key = record.key.bytes();
                let old = match mode {
                    KV_REMOVE => table.remove(key)?,
                    _ => table.insert(key, record.value.bytes())?,
                };
                let status = allowed(mode, old.is_some());
                if status != KV_OK {
                    return Ok(status); // undone by its transaction
                }
            }
            Ok(KV_OK)
        })
    }

    fn scan(
        &self,
        from: &[u8],
        backward: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        let table = self.db.begin_read()?.open_table(RECORDS)?;
        let mut range =
            if backward { table.range::<&[u8]>(..=from)? } else { table.range::<&[u8]>(from..)? };
        while let Some(record) = if backward { range.next_back() } else { range.next() } {
            let (key, value) = record?;
            if !visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Outcome<()> {
        self.transaction(Durability::Immediate, |_| Ok(KV_OK))?; // what waits in the process
        Ok(self.file.sync_data()?)
    }

    fn effective_options(&self) -> Outcome<String> {
        Ok(self.shown.clone())
    }
}

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static kv_driver: kv_driver = kv_driver {
    capabilities: (KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS) as u32,
    name: c"redb".as_ptr(),
    max_key: 1 << 30, // the engine takes 3 GiB, and 3.75 GiB of key and value together
    max_value: 1 << 30,
    settings: SETTINGS.as_ptr(),
    default_durability: c"sync".as_ptr(),
    ..driver::<Redb>()
};
