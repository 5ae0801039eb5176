/* RocksDB through its C API, options as shipped.
 * Values are read pinned, so that a get copies them once and an existence check not at all. */
#include "../kv.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <rocksdb/c.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OUT_OF_REACH (1 << 30) /* files in level 0 */
#define MAX_JOBS 1000

struct kv {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
    bool sync;
    char path[PATH_MAX];
};

extern const struct kv_driver kv_driver;

static const struct kv_setting settings[] = {
    {.name = "durability", .value = "none", .means = "write option disableWAL"},
    {.name = "durability", .value = "process", .means = "the log is written, not synced, as shipped"},
    {.name = "durability", .value = "sync", .means = "write option sync"},
    {.name = "durability", .value = "*", .lacks = "its writes are atomic at every level"},
    {.name = "memory",
     .least = 128 << 10, /* the engine's least write buffer is half of that */
     .means = "half of it write_buffer, half block_cache"},
    {.name = "write_buffer", .least = 64 << 10, .means = "bytes of a memtable"},
    {.name = "block_cache", .least = 1, .means = "bytes of an LRU cache of uncompressed blocks"},
    {.name = "block_size", .least = 1, .means = "bytes of a table's block, before compression"},
    {.name = "bloom_bits", .least = 1, .means = "bits a key of a Bloom filter; as shipped none"},
    {.name = "log", .value = "on", .means = "a write goes to the log, as shipped"},
    {.name = "log",
     .value = "off",
     .means = "write option disableWAL; refused at a durability above none"},
    {.name = "background_jobs",
     .least = 1,
     .means = "max_background_jobs and max_background_compactions: at most so many compactions at "
              "a time, and one flush beside them"},
    {.name = "target_file_size", .least = 1, .means = "target_file_size_base: bytes of a table"},
    {.name = "level_base", .least = 1, .means = "max_bytes_for_level_base: bytes of level 1"},
    {.name = "bulk_load",
     .value = "on",
     .means = "memtable in a vector, which is sorted anew for each read of it; no compaction but "
              "on demand, no trigger in level 0"},
    {.name = "bulk_load", .value = "off", .means = "as shipped"},
    {.name = "compression", .value = "none", .means = "no compression of blocks"},
    {.name = "compression", .value = "snappy", .means = "each block by Snappy, as shipped"},
    {.name = "compression", .value = "zlib", .means = "each block by zlib"},
    {.name = "compression", .value = "lz4", .means = "each block by LZ4"},
    {.name = "compression", .value = "zstd", .means = "each block by Zstandard"},
    {.name = "compression", .value = "bzip2", .means = "each block by bzip2"},
    {.name = "compression", .value = "*", .lacks = "it has no such compression"},
    {.name = NULL},
};

/* The engine's number of each compression that it has. */
static const struct {
    const char *name;
    int number;
} compressions[] = {
    {"none", rocksdb_no_compression},   {"snappy", rocksdb_snappy_compression},
    {"zlib", rocksdb_zlib_compression}, {"lz4", rocksdb_lz4_compression},
    {"zstd", rocksdb_zstd_compression}, {"bzip2", rocksdb_bz2_compression},
};
enum { COMPRESSIONS = sizeof compressions / sizeof *compressions };

/* The C API states no version, so it is taken from the name of the library that is loaded:
 * librocksdb.so.7.8.3. */
static const char *version(void)
{
    static char path[PATH_MAX];
    Dl_info library;
    void *function;
    rocksdb_t *(*open)(const rocksdb_options_t *, const char *, char **) = rocksdb_open;
    memcpy(&function, &open, sizeof function); /* ISO C has no such cast */
    if (dladdr(function, &library) == 0 || realpath(library.dli_fname, path) == NULL)
        return "unknown";
    const char *suffix = strstr(path, ".so.");
    return suffix == NULL ? "unknown" : suffix + strlen(".so.");
}

/* Takes over the message that the engine allocated. */
static int failed(char *message)
{
    int status = kv_fail("%s", message);
    rocksdb_free(message);
    return status;
}

static int close_store(struct kv *kv)
{
    if (kv->db != NULL)
        rocksdb_close(kv->db);
    rocksdb_writeoptions_destroy(kv->write);
    rocksdb_readoptions_destroy(kv->read);
    rocksdb_options_destroy(kv->options);
    free(kv);
    return KV_OK;
}

/* What is 0 stays as shipped. */
static void set_tables(struct kv *kv, size_t cache_bytes, size_t block_size, uint64_t bloom_bits)
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
    rocksdb_options_set_block_based_table_factory(kv->options, tables);
    rocksdb_block_based_options_destroy(tables);
}

/* As the engine's benchmark sets its own for a load: what is flushed stays in level 0. */
static void set_bulk_load(struct kv *kv)
{
    rocksdb_options_set_memtable_vector_rep(kv->options);
    rocksdb_options_set_allow_concurrent_memtable_write(kv->options, 0); /* no vector has it */
    rocksdb_options_set_disable_auto_compactions(kv->options, 1);
    rocksdb_options_set_level0_file_num_compaction_trigger(kv->options, OUT_OF_REACH);
    rocksdb_options_set_level0_slowdown_writes_trigger(kv->options, OUT_OF_REACH);
    rocksdb_options_set_level0_stop_writes_trigger(kv->options, OUT_OF_REACH);
}

/* The engine adds threads to its pool for as many compactions by itself. */
static void set_compaction(struct kv *kv, const struct kv_option *options, size_t count)
{
    uint64_t jobs = kv_number(options, count, "background_jobs");
    uint64_t file = kv_number(options, count, "target_file_size");
    uint64_t level = kv_number(options, count, "level_base");
    if (jobs > 0) {
        rocksdb_options_set_max_background_jobs(kv->options, (int)jobs);
        rocksdb_options_set_max_background_compactions(kv->options, (int)jobs);
    }
    if (file > 0)
        rocksdb_options_set_target_file_size_base(kv->options, file);
    if (level > 0)
        rocksdb_options_set_max_bytes_for_level_base(kv->options, level);
    if (kv_is(options, count, "bulk_load", "on"))
        set_bulk_load(kv);
}

static void set_options(struct kv *kv, const struct kv_option *options, size_t count)
{
    size_t half = kv_number(options, count, "memory") / 2;
    size_t buffer = kv_number(options, count, "write_buffer");
    size_t cache = kv_number(options, count, "block_cache");
    size_t block = kv_number(options, count, "block_size");
    uint64_t bits = kv_number(options, count, "bloom_bits");
    if (buffer > 0 || half > 0)
        rocksdb_options_set_write_buffer_size(kv->options, buffer > 0 ? buffer : half);
    cache = cache > 0 ? cache : half;
    if (cache > 0 || block > 0 || bits > 0)
        set_tables(kv, cache, block, bits);
    set_compaction(kv, options, count);
    for (int i = 0; i < COMPRESSIONS; i++)
        if (kv_is(options, count, "compression", compressions[i].name))
            rocksdb_options_set_compression(kv->options, compressions[i].number);
    kv->sync = kv_is(options, count, "durability", "sync");
    rocksdb_writeoptions_set_sync(kv->write, kv->sync);
    rocksdb_writeoptions_disable_WAL(kv->write, kv_is(options, count, "log", "off") ||
                                                    (kv_is(options, count, "durability", "none") &&
                                                     !kv_is(options, count, "log", "on")));
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char *message = NULL;
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    if (strlen(path) >= PATH_MAX)
        return kv_fail("path too long");
    const char *level = kv_given(options, count, "durability");
    if (kv_is(options, count, "log", "off") && level != NULL && strcmp(level, "none") != 0)
        return kv_fail("log=off: nothing is left of durability=%s", level);
    if (kv_number(options, count, "background_jobs") > MAX_JOBS)
        return kv_fail("background_jobs: more than %d", MAX_JOBS);
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    strcpy(opened->path, path);
    opened->options = rocksdb_options_create();
    opened->read = rocksdb_readoptions_create();
    opened->write = rocksdb_writeoptions_create();
    rocksdb_options_set_create_if_missing(opened->options, 1);
    set_options(opened, options, count);
    opened->db = rocksdb_open(opened->options, path, &message);
    if (message != NULL) {
        close_store(opened);
        return failed(message);
    }
    *kv = opened;
    return KV_OK;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    char *message = NULL;
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    rocksdb_pinnableslice_t *pinned =
        rocksdb_get_pinned(kv->db, kv->read, key.data, key.size, &message);
    if (message != NULL)
        return failed(message);
    if (pinned == NULL)
        return KV_NOT_FOUND;
    const char *value = rocksdb_pinnableslice_value(pinned, size);
    bool fits = *size <= capacity;
    if (fits)
        memcpy(buffer, value, *size);
    rocksdb_pinnableslice_destroy(pinned);
    return fits ? KV_OK : KV_TOO_LARGE;
}

/* KV_OK when the key's presence is the wanted one. */
static int expect(struct kv *kv, struct kv_slice key, bool wanted)
{
    char *message = NULL;
    rocksdb_pinnableslice_t *pinned =
        rocksdb_get_pinned(kv->db, kv->read, key.data, key.size, &message);
    if (message != NULL)
        return failed(message);
    bool found = pinned != NULL;
    if (found)
        rocksdb_pinnableslice_destroy(pinned);
    if (found == wanted)
        return KV_OK;
    return found ? KV_EXISTS : KV_NOT_FOUND;
}

static int put(struct kv *kv, struct kv_slice key, struct kv_slice value, bool exists)
{
    char *message = NULL;
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    int status = expect(kv, key, exists);
    if (status != KV_OK)
        return status;
    rocksdb_put(kv->db, kv->write, key.data, key.size, value.data, value.size, &message);
    return message == NULL ? KV_OK : failed(message);
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    return put(kv, key, value, false);
}

static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    return put(kv, key, value, true);
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    char *message = NULL;
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    int status = expect(kv, key, true);
    if (status != KV_OK)
        return status;
    rocksdb_delete(kv->db, kv->write, key.data, key.size, &message);
    return message == NULL ? KV_OK : failed(message);
}

static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    char *message = NULL;
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (size_t i = 0; i < count; i++)
        rocksdb_writebatch_put(batch, records[i].key.data, records[i].key.size,
                               records[i].value.data, records[i].value.size);
    rocksdb_write(kv->db, kv->write, batch, &message);
    rocksdb_writebatch_destroy(batch);
    return message == NULL ? KV_OK : failed(message);
}

/* Visits records until the visitor ends it or there are no more. */
static int walk(struct kv *kv, struct kv_slice from, bool back, kv_visit visit, void *context)
{
    char *message = NULL;
    rocksdb_iterator_t *cursor = rocksdb_create_iterator(kv->db, kv->read);
    if (back)
        rocksdb_iter_seek_for_prev(cursor, from.data, from.size);
    else
        rocksdb_iter_seek(cursor, from.data, from.size);
    while (rocksdb_iter_valid(cursor)) {
        struct kv_slice key, value;
        key.data = rocksdb_iter_key(cursor, &key.size);
        value.data = rocksdb_iter_value(cursor, &value.size);
        if (visit(context, key, value) != 0)
            break;
        if (back)
            rocksdb_iter_prev(cursor);
        else
            rocksdb_iter_next(cursor);
    }
    rocksdb_iter_get_error(cursor, &message);
    rocksdb_iter_destroy(cursor);
    return message == NULL ? KV_OK : failed(message);
}

static int scan(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, from, false, visit, context);
}

static int scan_back(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, from, true, visit, context);
}

static int flush(struct kv *kv)
{
    char *message = NULL;
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create(); /* waits, as shipped */
    rocksdb_flush(kv->db, options, &message);
    rocksdb_flushoptions_destroy(options);
    return message == NULL ? KV_OK : failed(message);
}

/* The API does not tell how the merge itself went; an error that lasts comes with the next
 * write. */
static int compact(struct kv *kv)
{
    int status = flush(kv);
    if (status == KV_OK)
        rocksdb_compact_range(kv->db, NULL, 0, NULL, 0);
    return status;
}

static int sync_store(struct kv *kv)
{
    char *message = NULL;
    if (rocksdb_writeoptions_get_disable_WAL(kv->write))
        return flush(kv);
    rocksdb_flush_wal(kv->db, 1, &message);
    return message == NULL ? KV_OK : failed(message);
}

static const char *compression_name(int number)
{
    for (int i = 0; i < COMPRESSIONS; i++)
        if (compressions[i].number == number)
            return compressions[i].name;
    return "other";
}

/* The path of the newest of the files in which the engine writes down its options. */
static int find_options_file(struct kv *kv, char *path, size_t capacity)
{
    char newest[256] = "";
    DIR *folder = opendir(kv->path);
    if (folder == NULL)
        return kv_fail("%s: %s", kv->path, strerror(errno));
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        if (strncmp(entry->d_name, "OPTIONS-", strlen("OPTIONS-")) == 0 &&
            strstr(entry->d_name, ".dbtmp") == NULL && strcmp(entry->d_name, newest) > 0)
            strcpy(newest, entry->d_name);
    closedir(folder);
    snprintf(path, capacity, "%s/%s", kv->path, newest);
    return newest[0] != '\0' ? KV_OK : kv_fail("%s: no file of options", kv->path);
}

/* Adds the lines of what the C API can't read back. */
static int add_unread(struct kv *kv, char *text, size_t capacity)
{
    static const char *const wanted[] = {"block_size=", "filter_policy=", "memtable_factory=",
                                         "allow_concurrent_memtable_write="};
    char path[PATH_MAX + 256], line[1024];
    if (find_options_file(kv, path, sizeof path) != KV_OK)
        return KV_ERROR;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return kv_fail("%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, file) != NULL) {
        const char *setting = line + strspn(line, " ");
        size_t used = strlen(text);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strncmp(setting, wanted[i], strlen(wanted[i])) == 0)
                snprintf(text + used, capacity - used, "%s", setting);
    }
    bool failed_reading = ferror(file) != 0;
    fclose(file);
    return failed_reading ? kv_fail("%s can't be read", path) : KV_OK;
}

/* From what the engine itself wrote down of its options when it was opened. */
static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    char *message = NULL;
    uint64_t cache = 0;
    size_t families;
    char **names;
    rocksdb_options_t *db, **family;
    rocksdb_env_t *env = rocksdb_create_default_env();
    rocksdb_cache_t *unused = rocksdb_cache_create_lru(0);
    rocksdb_load_latest_options(kv->path, env, false, unused, &db, &families, &names, &family,
                                &message);
    text[0] = '\0';
    if (message == NULL && rocksdb_property_int(kv->db, "rocksdb.block-cache-capacity", &cache) == 0)
        snprintf(
            text, capacity,
            "write_buffer_size=%zu\nmax_write_buffer_number=%d\nmax_background_jobs=%d\n"
            "max_background_compactions=%d\ntarget_file_size_base=%llu\n"
            "max_bytes_for_level_base=%llu\ndisable_auto_compactions=%d\n"
            "level0_triggers=%d %d %d\n"
            "block_cache=%llu\ncompression=%s\nuse_fsync=%d\nwal=%s\nsync=%s\n",
            rocksdb_options_get_write_buffer_size(family[0]),
            rocksdb_options_get_max_write_buffer_number(family[0]),
            rocksdb_options_get_max_background_jobs(db),
            rocksdb_options_get_max_background_compactions(db),
            (unsigned long long)rocksdb_options_get_target_file_size_base(family[0]),
            (unsigned long long)rocksdb_options_get_max_bytes_for_level_base(family[0]),
            rocksdb_options_get_disable_auto_compactions(family[0]),
            rocksdb_options_get_level0_file_num_compaction_trigger(family[0]),
            rocksdb_options_get_level0_slowdown_writes_trigger(family[0]),
            rocksdb_options_get_level0_stop_writes_trigger(family[0]), (unsigned long long)cache,
            compression_name(rocksdb_options_get_compression(family[0])),
            rocksdb_options_get_use_fsync(db),
            rocksdb_writeoptions_get_disable_WAL(kv->write) ? "off" : "on",
            kv->sync ? "each write" : "off");
    if (message == NULL)
        rocksdb_load_latest_options_destroy(db, names, family, families);
    rocksdb_cache_destroy(unused);
    rocksdb_env_destroy(env);
    return message == NULL ? add_unread(kv, text, capacity) : failed(message);
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS,
    .name = "rocksdb",
    .max_key = 8 << 20, /* the engine's advice */
    .max_value = UINT32_MAX / 2, /* lengths are 32 bits in a block */
    .settings = settings,
    .default_durability = "process",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .insert = insert,
    .update = update,
    .remove = remove_record,
    .write_batch = write_batch,
    .scan = scan,
    .scan_back = scan_back,
    .compact = compact,
    .sync = sync_store,
    .effective_options = effective_options,
};
