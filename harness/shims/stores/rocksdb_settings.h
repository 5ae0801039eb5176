/* The settings of RocksDB: what may be asked for, how it is set, and how it is read back. */
#ifndef ROCKSDB_SETTINGS_H
#define ROCKSDB_SETTINGS_H

#include "../shim.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <rocksdb/c.h>

#define OUT_OF_REACH (1 << 30) /* files in level 0 */
#define MAX_JOBS 1000
#define LEVELS 7 /* as shipped */
#define RECOMMENDED_BLOOM_BITS 10

static const struct kv_setting settings[] = {
    {"durability", "none", .means = "write option disableWAL"},
    {"durability", "process", .means = "the log is written, not synced, as shipped"},
    {"durability", "recoverable", /* github.com/facebook/rocksdb/wiki/WAL-Recovery-Modes */
     .means = "the log is written, not synced, as at process"},
    {"durability", "sync", .means = "write option sync"},
    {"durability", "*", .lacks = "its writes are atomic at every level"},
    {"memory", .least = 128 << 10, /* the engine's least write buffer is half of that */
     .means = "half of it write_buffer, half block_cache"},
    {"write_buffer", .least = 64 << 10, .means = "bytes of a memtable"},
    {"block_cache", .least = 1, .means = "bytes of an LRU cache of uncompressed blocks"},
    {"block_size", .least = 1, .means = "bytes of a table's block, before compression"},
    {"bloom_bits", .least = 1, .means = "bits a key of a Bloom filter; as shipped none"},
    {"profile", "recommended",
     .means = "for data larger than memory a Bloom filter of 10 bits a key, "
              "cache_index_and_filter_blocks, pin_l0_filter_and_index_blocks_in_cache, "
              "use_direct_reads, use_direct_io_for_flush_and_compaction; memory sizes the cache: "
              "RocksDB's documentation, Setup Options and Basic Tuning, "
              "https://github.com/facebook/rocksdb/wiki/Setup-Options-and-Basic-Tuning, and Direct "
              "IO, https://github.com/facebook/rocksdb/wiki/Direct-IO"},
    {"log", "on", .means = "a write goes to the log, as shipped"},
    {"log", "off", .means = "write option disableWAL; refused at a durability above none"},
    {"recycled_logs", .least = 1,
     .means = "recycle_log_file_num: so many old logs are written again; as shipped none is"},
    {"background_jobs", .least = 1,
     .means = "max_background_jobs and max_background_compactions: at most so many compactions at "
              "a time, and one flush beside them"},
    {"target_file_size", .least = 1, .means = "target_file_size_base: bytes of a table"},
    {"level_base", .least = 1, .means = "max_bytes_for_level_base: bytes of level 1"},
    {"bulk_load", "on",
     .means = "memtable in a vector, which is sorted anew for each read of it; no compaction but "
              "on demand, no trigger in level 0"},
    {"bulk_load", "off", .means = "as shipped"},
    {"compression", "none", .means = "no compression of blocks"},
    {"compression", "snappy", .means = "each block by Snappy, as shipped"},
    {"compression", "zlib", .means = "each block by zlib"},
    {"compression", "lz4", .means = "each block by LZ4"},
    {"compression", "zstd", .means = "each block by Zstandard"},
    {"compression", "bzip2", .means = "each block by bzip2"},
    {"compression", "*", .lacks = "it has no such compression"},
    {"compress_from_level", .least = 1,
     .means = "min_level_to_compress: the levels before it are not compressed; as shipped all are"},
    {"checks", "off",
     .means = "no paranoid_checks, no verify_checksums in reads; as shipped both are on"},
    {NULL},
};

/* The names of the engine's numbers. */
static const char *const compressions[] = {
    [rocksdb_no_compression] = "none",   [rocksdb_snappy_compression] = "snappy",
    [rocksdb_zlib_compression] = "zlib", [rocksdb_bz2_compression] = "bzip2",
    [rocksdb_lz4_compression] = "lz4",   [rocksdb_zstd_compression] = "zstd",
};
enum { COMPRESSIONS = sizeof compressions / sizeof *compressions };

static const char *compression_name(unsigned number)
{
    return number < COMPRESSIONS && compressions[number] != NULL ? compressions[number] : "other";
}

/* What is 0 stays as shipped. */
static void set_tables(rocksdb_options_t *to, size_t cache_bytes, size_t block_size,
                       uint64_t bloom_bits, bool recommended)
{
    rocksdb_block_based_table_options_t *tables = rocksdb_block_based_options_create();
    if (cache_bytes > 0) {
        rocksdb_cache_t *cache = rocksdb_cache_create_lru(cache_bytes);
        rocksdb_block_based_options_set_block_cache(tables, cache);
        rocksdb_cache_destroy(cache); /* the options hold it */
    }
    if (block_size > 0)
        rocksdb_block_based_options_set_block_size(tables, block_size);
    if (bloom_bits > 0) /* the options take it over */
        rocksdb_block_based_options_set_filter_policy(
            tables, rocksdb_filterpolicy_create_bloom_full((double)bloom_bits));
    if (recommended) { /* else indexes and filters take memory beside the cache */
        rocksdb_block_based_options_set_cache_index_and_filter_blocks(tables, 1);
        rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(tables, 1);
    }
    rocksdb_options_set_block_based_table_factory(to, tables);
    rocksdb_block_based_options_destroy(tables);
}

/* As the engine's benchmark sets its own for a load: what is flushed stays in level 0. */
static void set_bulk_load(rocksdb_options_t *to)
{
    rocksdb_options_set_memtable_vector_rep(to);
    rocksdb_options_set_allow_concurrent_memtable_write(to, 0); /* no vector has it */
    rocksdb_options_set_disable_auto_compactions(to, 1);
    rocksdb_options_set_level0_file_num_compaction_trigger(to, OUT_OF_REACH);
    rocksdb_options_set_level0_slowdown_writes_trigger(to, OUT_OF_REACH);
    rocksdb_options_set_level0_stop_writes_trigger(to, OUT_OF_REACH);
}

static void set_options(rocksdb_options_t *to, const struct kv_option *options, size_t count)
{
    size_t half = kv_number(options, count, "memory") / 2;
    size_t buffer = kv_number(options, count, "write_buffer");
    size_t cache = kv_number(options, count, "block_cache");
    int jobs = (int)kv_number(options, count, "background_jobs");
    uint64_t logs = kv_number(options, count, "recycled_logs");
    uint64_t file = kv_number(options, count, "target_file_size");
    uint64_t level = kv_number(options, count, "level_base");
    uint64_t bits = kv_number(options, count, "bloom_bits");
    bool recommended = kv_is(options, count, "profile", "recommended");
    if (buffer > 0 || half > 0)
        rocksdb_options_set_write_buffer_size(to, buffer > 0 ? buffer : half);
    if (recommended) {
        rocksdb_options_set_use_direct_reads(to, 1);
        rocksdb_options_set_use_direct_io_for_flush_and_compaction(to, 1);
    }
    set_tables(to, cache > 0 ? cache : half, kv_number(options, count, "block_size"),
               bits == 0 && recommended ? RECOMMENDED_BLOOM_BITS : bits, recommended);
    if (jobs > 0) { /* the engine adds threads to its pool for as many compactions by itself */
        rocksdb_options_set_max_background_jobs(to, jobs);
        rocksdb_options_set_max_background_compactions(to, jobs);
    }
    if (logs > 0)
        rocksdb_options_set_recycle_log_file_num(to, logs);
    if (file > 0)
        rocksdb_options_set_target_file_size_base(to, file);
    if (level > 0)
        rocksdb_options_set_max_bytes_for_level_base(to, level);
    for (int i = 0; i < COMPRESSIONS; i++)
        if (compressions[i] != NULL && kv_is(options, count, "compression", compressions[i]))
            rocksdb_options_set_compression(to, i);
    if (kv_given(options, count, "compress_from_level") != NULL) /* after the compression */
        rocksdb_options_set_min_level_to_compress(
            to, (int)kv_number(options, count, "compress_from_level"));
    if (kv_is(options, count, "bulk_load", "on"))
        set_bulk_load(to);
}

static void set_write_options(rocksdb_writeoptions_t *to, const struct kv_option *options,
                              size_t count)
{
    bool unlogged = kv_is(options, count, "durability", "none");
    if (kv_given(options, count, "log") != NULL)
        unlogged = kv_is(options, count, "log", "off");
    rocksdb_writeoptions_disable_WAL(to, unlogged);
    rocksdb_writeoptions_set_sync(to, kv_is(options, count, "durability", "sync"));
}

/* Adds what the C API can't read back, from the newest file in which the engine writes down its
 * options. */
static int add_unread(const char *folder_path, char *text, size_t capacity)
{
    static const char *const wanted[] = {"block_size=",
                                         "filter_policy=",
                                         "memtable_factory=",
                                         "allow_concurrent_memtable_write=",
                                         "cache_index_and_filter_blocks=",
                                         "compression_per_level=",
                                         "recycle_log_file_num="};
    char newest[256] = "", path[PATH_MAX + sizeof newest], line[1024];
    DIR *folder = opendir(folder_path);
    if (folder == NULL)
        return kv_fail("%s: %s", folder_path, strerror(errno));
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        if (strncmp(entry->d_name, "OPTIONS-", strlen("OPTIONS-")) == 0 &&
            strstr(entry->d_name, ".dbtmp") == NULL && strcmp(entry->d_name, newest) > 0)
            strcpy(newest, entry->d_name);
    closedir(folder);
    snprintf(path, sizeof path, "%s/%s", folder_path, newest);
    FILE *file = newest[0] == '\0' ? NULL : fopen(path, "r");
    if (file == NULL)
        return kv_fail("%s: its file of options can't be opened", path);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *setting = line + strspn(line, " ");
        size_t used = strlen(text);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strncmp(setting, wanted[i], strlen(wanted[i])) == 0)
                snprintf(text + used, capacity - used, "%s", setting);
    }
    bool unread = ferror(file) != 0;
    fclose(file);
    return unread ? kv_fail("%s can't be read", path) : KV_OK;
}

#endif
