/* RocksDB through its C API, options as shipped.
 * Values are read pinned, so that a get copies them once and an existence check not at all. */
#include "../kv.h"

#include <dlfcn.h>
#include <limits.h>
#include <rocksdb/c.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static void set_cache(struct kv *kv, size_t bytes)
{
    rocksdb_cache_t *cache = rocksdb_cache_create_lru(bytes);
    rocksdb_block_based_table_options_t *tables = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(tables, cache);
    rocksdb_options_set_block_based_table_factory(kv->options, tables);
    rocksdb_block_based_options_destroy(tables);
    rocksdb_cache_destroy(cache); /* the options hold it */
}

static void set_options(struct kv *kv, const struct kv_option *options, size_t count)
{
    size_t half = kv_number(options, count, "memory") / 2;
    size_t buffer = kv_number(options, count, "write_buffer");
    size_t cache = kv_number(options, count, "block_cache");
    if (buffer > 0 || half > 0)
        rocksdb_options_set_write_buffer_size(kv->options, buffer > 0 ? buffer : half);
    if (cache > 0 || half > 0)
        set_cache(kv, cache > 0 ? cache : half);
    for (int i = 0; i < COMPRESSIONS; i++)
        if (kv_is(options, count, "compression", compressions[i].name))
            rocksdb_options_set_compression(kv->options, compressions[i].number);
    kv->sync = kv_is(options, count, "durability", "sync");
    rocksdb_writeoptions_set_sync(kv->write, kv->sync);
    rocksdb_writeoptions_disable_WAL(kv->write, kv_is(options, count, "durability", "none"));
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char *message = NULL;
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    if (strlen(path) >= PATH_MAX)
        return kv_fail("path too long");
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

static int scan(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    char *message = NULL;
    rocksdb_iterator_t *cursor = rocksdb_create_iterator(kv->db, kv->read);
    for (rocksdb_iter_seek(cursor, from.data, from.size); rocksdb_iter_valid(cursor);
         rocksdb_iter_next(cursor)) {
        struct kv_slice key, value;
        key.data = rocksdb_iter_key(cursor, &key.size);
        value.data = rocksdb_iter_value(cursor, &value.size);
        if (visit(context, key, value) != 0)
            break;
    }
    rocksdb_iter_get_error(cursor, &message);
    rocksdb_iter_destroy(cursor);
    return message == NULL ? KV_OK : failed(message);
}

static int sync_store(struct kv *kv)
{
    char *message = NULL;
    if (rocksdb_writeoptions_get_disable_WAL(kv->write)) {
        rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
        rocksdb_flush(kv->db, flush, &message);
        rocksdb_flushoptions_destroy(flush);
    } else {
        rocksdb_flush_wal(kv->db, 1, &message);
    }
    return message == NULL ? KV_OK : failed(message);
}

static const char *compression_name(int number)
{
    for (int i = 0; i < COMPRESSIONS; i++)
        if (compressions[i].number == number)
            return compressions[i].name;
    return "other";
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
    if (message == NULL && rocksdb_property_int(kv->db, "rocksdb.block-cache-capacity", &cache) == 0)
        snprintf(
            text, capacity,
            "write_buffer_size=%zu\nmax_write_buffer_number=%d\nmax_background_jobs=%d\n"
            "block_cache=%llu\ncompression=%s\nuse_fsync=%d\nwal=%s\nsync=%s\n",
            rocksdb_options_get_write_buffer_size(family[0]),
            rocksdb_options_get_max_write_buffer_number(family[0]),
            rocksdb_options_get_max_background_jobs(db), (unsigned long long)cache,
            compression_name(rocksdb_options_get_compression(family[0])),
            rocksdb_options_get_use_fsync(db),
            rocksdb_writeoptions_get_disable_WAL(kv->write) ? "off" : "on",
            kv->sync ? "each write" : "off");
    if (message == NULL)
        rocksdb_load_latest_options_destroy(db, names, family, families);
    rocksdb_cache_destroy(unused);
    rocksdb_env_destroy(env);
    return message == NULL ? KV_OK : failed(message);
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
    .sync = sync_store,
    .effective_options = effective_options,
};
