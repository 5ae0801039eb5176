/* The settings of TidesDB: what may be asked for, and how it is set. */
#include "../shim.h"

#include <db.h>

#define NEVER (UINT64_C(3600000000) * 24 * 365) /* microseconds: no experiment takes a year */
#define MAX_THREADS 1000

static const struct kv_setting settings[] = {
    {"durability", "none", .means = "TDB_SYNC_NONE, as shipped"},
    {"durability", "process",
     .means = "TDB_SYNC_INTERVAL with a year between two syncs: a commit writes the log; a value "
              "of 1 KiB or more is synced all the same"},
    {"durability", "recoverable", /* db.h, TDB_SYNC_INTERVAL */
     .means = "TDB_SYNC_INTERVAL with one second between two syncs, as the engine ships it"},
    {"durability", "sync", .means = "TDB_SYNC_FULL; a value of 1 KiB or more is synced by itself"},
    {"durability", "*", .lacks = "its writes are atomic at every level"},
    {"memory", .least = 1 << 20, .means = "half of it write_buffer, half block_cache"},
    {"write_buffer", .least = 64 << 10, .means = "bytes of a memtable, as shipped 64 MiB"},
    {"block_cache", .least = 1, .means = "bytes of the cache of tables' nodes, as shipped 64 MiB"},
    {"block_size", .least = 1, .means = "btree_klog_block_size: bytes of a table's node"},
    {"value_separation", .least = 1,
     .means = "bytes from which a value is kept in the log of values, as shipped 1024"},
    {"bloom", "on", .means = "a filter for each table, as shipped"},
    {"bloom", "off", .means = "no filters"},
    {"background_threads", .least = 1,
     .means = "so many threads that flush and so many that compact, as shipped 2"},
    {"compression", "none", .means = "as shipped"},
    {"compression", "snappy", .means = "nodes and separate values by Snappy"},
    {"compression", "lz4", .means = "nodes and separate values by LZ4"},
    {"compression", "zstd", .means = "nodes and separate values by Zstandard"},
    {"compression", "*", .lacks = "the engine has none, snappy, lz4 and zstd"},
    {NULL},
};

/* The names of the engine's numbers. */
static const char *const compressions[] = {
    [TDB_COMPRESS_NONE] = "none",
    [TDB_COMPRESS_SNAPPY] = "snappy",
    [TDB_COMPRESS_LZ4] = "lz4",
    [TDB_COMPRESS_ZSTD] = "zstd",
};
enum { COMPRESSIONS = sizeof compressions / sizeof *compressions };

/* The whole database's settings. What is 0 stays as shipped. */
static tidesdb_config_t configure(const char *path, const struct kv_option *options, size_t count)
{
    tidesdb_config_t config = tidesdb_default_config();
    uint64_t half = kv_number(options, count, "memory") / 2;
    uint64_t buffer = kv_number(options, count, "write_buffer");
    uint64_t cache = kv_number(options, count, "block_cache");
    uint64_t separation = kv_number(options, count, "value_separation");
    int threads = (int)kv_number(options, count, "background_threads");
    config.db_path = (char *)(uintptr_t)path; /* the engine copies it */
    config.log_level = TDB_LOG_ERROR;
    if (buffer > 0 || half > 0)
        config.memtable_write_buffer_size = buffer > 0 ? buffer : half;
    if (cache > 0 || half > 0)
        config.block_cache_size = cache > 0 ? cache : half;
    if (separation > 0)
        config.value_separation_threshold = separation;
    if (threads > 0)
        config.num_flush_threads = config.num_compaction_threads = threads;
    bool never = kv_is(options, count, "durability", "process");
    if (never || kv_is(options, count, "durability", "recoverable"))
        config.memtable_sync_mode = TDB_SYNC_INTERVAL;
    if (never)
        config.memtable_sync_interval_us = NEVER;
    if (kv_is(options, count, "durability", "sync"))
        config.memtable_sync_mode = TDB_SYNC_FULL;
    return config;
}

/* The column family's settings. */
static tidesdb_column_family_config_t configure_family(const struct kv_option *options,
                                                       size_t count)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    uint64_t block = kv_number(options, count, "block_size");
    if (block > 0)
        config.btree_klog_block_size = block;
    if (kv_is(options, count, "bloom", "off"))
        config.enable_bloom_filter = 0;
    for (uint8_t i = TDB_COMPRESS_NONE + 1; i < COMPRESSIONS; i++)
        if (kv_is(options, count, "compression", compressions[i]))
            config.encoding_pipeline[config.encoding_count++] = i;
    return config;
}
