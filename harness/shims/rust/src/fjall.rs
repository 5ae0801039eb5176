//! fjall: an LSM tree with a journal, one keyspace of one database. The engine has no call that
//! inserts only a new key or updates only an old one, so these modes look for the key first.

use std::ffi::c_int;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use ::fjall::config::{BlockSizePolicy, CompressionPolicy};
use ::fjall::{
    AbstractTree, CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions,
    KvSeparationOptions, PersistMode,
};

use crate::kv::*;

const MAX_BLOCK: u64 = 1 << 20; // bytes
const FLUSHING: Duration = Duration::from_millis(10); // between two looks at a flush, as the engine

static SETTINGS: [kv_setting; 14] = [
    kv_setting::allows(
        c"durability",
        c"none",
        c"manual_journal_persist: the journal waits in a buffer of the process",
    ),
    kv_setting::allows(
        c"durability",
        c"process",
        c"PersistMode::Buffer: the journal is written, not synced, as shipped",
    ),
    kv_setting::allows(c"durability", c"recoverable", c"PersistMode::Buffer, as at process"), // docs.rs/fjall, PersistMode
    kv_setting::allows(c"durability", c"sync", c"PersistMode::SyncData after each write"),
    kv_setting::lacks(c"durability", c"*", c"its writes are atomic at every level"),
    kv_setting::number(
        c"memory",
        128 << 10,
        c"half of it write_buffer, half block_cache; full memtables wait for a flush beside it, \
          four at most",
    ),
    kv_setting::number(
        c"write_buffer",
        64 << 10,
        c"max_memtable_size: bytes of a memtable, fixed when the store is created",
    ),
    kv_setting::number(c"block_cache", 1, c"cache_size: bytes of the block cache"),
    kv_setting::number(
        c"block_size",
        1 << 10,
        c"data_block_size_policy: bytes of a table's block, fixed when the store is created",
    ),
    kv_setting::allows(
        c"kv_separation",
        c"on",
        c"KvSeparationOptions::default: values from 1 KiB in files of their own, fixed when the \
          store is created",
    ),
    kv_setting::allows(c"compression", c"none", c"no compression of tables and journal"),
    kv_setting::allows(
        c"compression",
        c"lz4",
        c"tables of every level by LZ4, not only from the third as shipped; and the journal's \
          values from 4 KiB, as shipped",
    ),
    kv_setting::lacks(c"compression", c"*", c"it has LZ4 alone"),
    kv_setting::END,
];

struct Fjall {
    records: Keyspace,
    db: Database,
    persist: Option<PersistMode>, // after each write
}

fn set_options(options: &Options, manual: bool) -> Outcome<KeyspaceCreateOptions> {
    let mut to = KeyspaceCreateOptions::default().manual_journal_persist(manual);
    if let Some(bytes) = options.number("write_buffer").or(half(options)) {
        to = to.max_memtable_size(bytes);
    }
    if let Some(bytes) = options.number("block_size") {
        if bytes > MAX_BLOCK {
            return Err(format!("block_size: more than {MAX_BLOCK}").into());
        }
        to = to.data_block_size_policy(BlockSizePolicy::all(bytes.try_into()?));
    }
    if let Some(kind) = compression(options) {
        to = to.data_block_compression_policy(CompressionPolicy::all(kind));
    }
    if options.is("kv_separation", "on") {
        let large = KvSeparationOptions::default();
        let kind = compression(options);
        to = to.with_kv_separation(Some(match kind {
            Some(kind) => large.compression(kind),
            None => large,
        }));
    }
    Ok(to)
}

fn half(options: &Options) -> Option<u64> {
    options.number("memory").map(|bytes| bytes / 2)
}

fn compression(options: &Options) -> Option<CompressionType> {
    options.given("compression").map(|name| match name {
        "lz4" => CompressionType::Lz4,
        _ => CompressionType::None,
    })
}

impl Store for Fjall {
    fn open(folder: &Path, options: Options) -> Outcome<Self> {
        let persist = match options.given("durability") {
            Some("none") => None,
            Some("sync") => Some(PersistMode::SyncData),
            _ => Some(PersistMode::Buffer),
        };
        let manual = persist.is_none();
        let mut builder = Database::builder(folder).manual_journal_persist(manual);
        if let Some(bytes) = options.number("block_cache").or(half(&options)) {
            builder = builder.cache_size(bytes);
        }
        if let Some(kind) = compression(&options) {
            builder = builder.journal_compression(kind);
        }
        let created = set_options(&options, manual)?;
        let db = builder.open()?;
        Ok(Self { records: db.keyspace("records", || created)?, db, persist })
    }

    fn close(self) -> Outcome<()> {
        Ok(self.db.persist(PersistMode::Buffer)?) // what closing itself would not report
    }

    fn get(&self, key: &[u8], found: impl FnOnce(&[u8]) -> c_int) -> Outcome<c_int> {
        Ok(self.records.get(key)?.map_or(KV_NOT_FOUND, |value| found(&value)))
    }

    fn write(&self, mode: c_int, records: &[kv_record]) -> Outcome<c_int> {
        if mode == KV_PUT {
            let mut batch = self.db.batch().durability(self.persist);
            for record in records {
                batch.insert(&self.records, record.key.bytes(), record.value.bytes());
            }
            batch.commit()?;
            return Ok(KV_OK);
        }
        let (key, value) = (records[0].key.bytes(), records[0].value.bytes());
        let status = allowed(mode, self.records.contains_key(key)?);
        if status != KV_OK {
            return Ok(status);
        }
        match mode {
            KV_REMOVE => self.records.remove(key)?,
            _ => self.records.insert(key, value)?,
        }
        // Of a store created at `none` the engine remembers that it must not write the journal.
        if let Some(mode) = self.persist {
            self.db.persist(mode)?;
        }
        Ok(KV_OK)
    }

    fn scan(
        &self,
        from: &[u8],
        backward: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        let found: Box<dyn Iterator<Item = Guard>> = if backward {
            Box::new(self.records.range(..=from).rev())
        } else {
            Box::new(self.records.range(from..))
        };
        for record in found {
            let (key, value) = record.into_inner()?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    /// The engine's own rotate_memtable_and_wait never returns if a flush fails; persist then does.
    fn compact(&self) -> Outcome<()> {
        self.records.rotate_memtable()?;
        while self.records.tree.sealed_memtable_count() > 0 {
            self.db.persist(PersistMode::Buffer)?;
            sleep(FLUSHING);
        }
        Ok(self.records.major_compact()?)
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }

    fn effective_options(&self) -> Outcome<String> {
        let of = &self.records.config;
        let kinds = of.data_block_compression_policy.iter().map(CompressionType::to_string);
        let sizes = of.data_block_size_policy.iter().map(u32::to_string);
        Ok(format!(
            "block_cache={}\nblock_size={}\ncompression={}\nfilter_policy={:?}\n\
             kv_separation={}\nsync={}\n",
            self.db.cache_capacity(),
            sizes.collect::<Vec<_>>().join(" "),
            kinds.collect::<Vec<_>>().join(" "),
            &*of.filter_policy,
            if self.records.is_kv_separated() { "on" } else { "off" },
            if self.persist == Some(PersistMode::SyncData) { "each write" } else { "off" },
        ))
    }
}

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static kv_driver: kv_driver = kv_driver {
    capabilities: (KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS) as u32,
    name: c"fjall".as_ptr(),
    max_key: u16::MAX as u64,
    max_value: 1 << 30, // a block's bytes are 32-bit numbers
    settings: SETTINGS.as_ptr(),
    default_durability: c"process".as_ptr(),
    compact: Some(compact::<Fjall>),
    ..driver::<Fjall>()
};
