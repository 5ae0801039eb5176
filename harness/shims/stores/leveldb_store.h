/* LevelDB's C API, which its forks kept. The file that includes this has included the engine's c.h
 * and defined version() and shipped, settings that the API can't read back.
 * The API has no way to ask whether a key exists, so insert, update and remove read it first. */
#include "../shim.h"

#define RECOMMENDED_BLOOM_BITS 10
#define MAX_BLOOM_BITS 1000 /* the engine's bits of a table are 32-bit numbers */

struct kv {
    leveldb_t *db;
    leveldb_cache_t *cache;         /* NULL: the engine's own */
    leveldb_filterpolicy_t *filter; /* NULL: none */
    leveldb_options_t *options;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write;
    size_t buffer, block_cache; /* bytes, and bits a key, that were set; 0: as shipped */
    unsigned bloom_bits;
    bool sync;
};

static const struct kv_setting settings[] = {
    {.name = "durability",
     .value = "process",
     .means = "the log is written, not synced, as shipped"},
    {.name = "durability",
     .value = "recoverable", /* doc/index.md, Synchronous Writes */
     .means = "the log is written, not synced, as at process"},
    {.name = "durability", .value = "sync", .means = "write option sync"},
    {.name = "durability", .value = "none", .lacks = "every write goes to its log"},
    {.name = "durability", .value = "*", .lacks = "its writes are atomic at every level"},
    {.name = "memory",
     .least = 128 << 10, /* the engine's least write buffer is half of that */
     .means = "half of it write_buffer, half block_cache"},
    {.name = "write_buffer", .least = 64 << 10, .means = "bytes of the memtable"},
    {.name = "block_cache", .least = 1, .means = "bytes of an LRU cache of uncompressed blocks"},
    {.name = "bloom_bits", .least = 1, .means = "bits a key of a Bloom filter; as shipped none"},
    {.name = "profile",
     .value = "recommended",
     .means =
         "for data larger than memory a Bloom filter of 10 bits a key; block_cache sizes the cache: "
         "LevelDB's documentation, Filters and Cache, "
         "https://github.com/google/leveldb/blob/main/doc/index.md"},
    {.name = "compression", .value = "none", .means = "no compression of blocks"},
    {.name = "compression", .value = "snappy", .means = "each block by Snappy, as shipped"},
    {.name = "compression", .value = "*", .lacks = "it has Snappy alone"},
    {.name = "checks",
     .value = "on",
     .means = "paranoid_checks, and verify_checksums in reads; as shipped both are off"},
    {.name = NULL},
};

/* Takes over the message that the engine allocated. */
static int failed(char *message)
{
    int status = kv_fail("%s", message);
    leveldb_free(message);
    return status;
}

static int close_store(struct kv *kv)
{
    if (kv->db != NULL)
        leveldb_close(kv->db);
    leveldb_writeoptions_destroy(kv->write);
    leveldb_readoptions_destroy(kv->read);
    leveldb_options_destroy(kv->options);
    if (kv->cache != NULL)
        leveldb_cache_destroy(kv->cache);
    if (kv->filter != NULL)
        leveldb_filterpolicy_destroy(kv->filter);
    free(kv);
    return KV_OK;
}

static void set_options(struct kv *kv, const struct kv_option *options, size_t count)
{
    size_t half = kv_number(options, count, "memory") / 2;
    size_t buffer = kv_number(options, count, "write_buffer");
    size_t cache = kv_number(options, count, "block_cache");
    uint64_t bits = kv_number(options, count, "bloom_bits");
    if (bits == 0 && kv_is(options, count, "profile", "recommended"))
        bits = RECOMMENDED_BLOOM_BITS;
    kv->buffer = buffer = buffer == 0 ? half : buffer;
    kv->block_cache = cache = cache == 0 ? half : cache;
    kv->bloom_bits = (unsigned)bits;
    if (buffer > 0)
        leveldb_options_set_write_buffer_size(kv->options, buffer);
    if (cache > 0) {
        kv->cache = leveldb_cache_create_lru(cache);
        leveldb_options_set_cache(kv->options, kv->cache);
    }
    if (bits > 0) {
        kv->filter = leveldb_filterpolicy_create_bloom((int)bits);
        leveldb_options_set_filter_policy(kv->options, kv->filter);
    }
    if (kv_is(options, count, "compression", "none"))
        leveldb_options_set_compression(kv->options, leveldb_no_compression);
    if (kv_is(options, count, "compression", "snappy"))
        leveldb_options_set_compression(kv->options, leveldb_snappy_compression);
    if (kv_is(options, count, "checks", "on")) {
        leveldb_options_set_paranoid_checks(kv->options, 1);
        leveldb_readoptions_set_verify_checksums(kv->read, 1);
    }
    kv->sync = kv_is(options, count, "durability", "sync");
    leveldb_writeoptions_set_sync(kv->write, kv->sync);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char *message = NULL;
    if (kv_number(options, count, "bloom_bits") > MAX_BLOOM_BITS)
        return kv_fail("bloom_bits: more than %d", MAX_BLOOM_BITS);
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->options = leveldb_options_create();
    opened->read = leveldb_readoptions_create();
    opened->write = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(opened->options, 1);
    set_options(opened, options, count);
    opened->db = leveldb_open(opened->options, path, &message);
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
    struct kv_slice value;
    value.data = leveldb_get(kv->db, kv->read, key.data, key.size, &value.size, &message);
    if (message != NULL)
        return failed(message);
    if (value.data == NULL)
        return KV_NOT_FOUND;
    int status = kv_copy(value, buffer, capacity, size);
    leveldb_free((void *)value.data);
    return status;
}

/* KV_OK when the key is there or not, as the mode wants it. */
static int expect(struct kv *kv, enum kv_mode mode, struct kv_slice key)
{
    char *message = NULL;
    size_t size;
    char *value = leveldb_get(kv->db, kv->read, key.data, key.size, &size, &message);
    if (message != NULL)
        return failed(message);
    bool found = value != NULL;
    leveldb_free(value);
    if (found == (mode != KV_INSERT))
        return KV_OK;
    return found ? KV_EXISTS : KV_NOT_FOUND;
}

static int put(struct kv *kv, const struct kv_record *records, size_t count)
{
    char *message = NULL;
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    for (size_t i = 0; i < count; i++)
        leveldb_writebatch_put(batch, records[i].key.data, records[i].key.size,
                               records[i].value.data, records[i].value.size);
    leveldb_write(kv->db, kv->write, batch, &message);
    leveldb_writebatch_destroy(batch);
    return message == NULL ? KV_OK : failed(message);
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    char *message = NULL;
    if (mode == KV_PUT)
        return put(kv, records, count);
    struct kv_slice key = records->key, value = records->value;
    int status = expect(kv, mode, key);
    if (status != KV_OK)
        return status;
    if (mode == KV_REMOVE)
        leveldb_delete(kv->db, kv->write, key.data, key.size, &message);
    else
        leveldb_put(kv->db, kv->write, key.data, key.size, value.data, value.size, &message);
    return message == NULL ? KV_OK : failed(message);
}

/* Moves to the last key that is not greater than `from`. The API's one way to seek is to the first
 * that is not less. */
static void seek_back(leveldb_iterator_t *cursor, struct kv_slice from)
{
    struct kv_slice key;
    leveldb_iter_seek(cursor, from.data, from.size);
    if (!leveldb_iter_valid(cursor)) {
        leveldb_iter_seek_to_last(cursor);
        return;
    }
    key.data = leveldb_iter_key(cursor, &key.size);
    if (!kv_same(key, from))
        leveldb_iter_prev(cursor);
}

static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    char *message = NULL;
    leveldb_iterator_t *cursor = leveldb_create_iterator(kv->db, kv->read);
    if (direction == KV_BACKWARD)
        seek_back(cursor, from);
    else
        leveldb_iter_seek(cursor, from.data, from.size);
    while (leveldb_iter_valid(cursor)) {
        struct kv_slice key, value;
        key.data = leveldb_iter_key(cursor, &key.size);
        value.data = leveldb_iter_value(cursor, &value.size);
        if (visit(context, key, value) != 0)
            break;
        if (direction == KV_BACKWARD)
            leveldb_iter_prev(cursor);
        else
            leveldb_iter_next(cursor);
    }
    leveldb_iter_get_error(cursor, &message);
    leveldb_iter_destroy(cursor);
    return message == NULL ? KV_OK : failed(message);
}

/* The API does not tell how it went; an error that lasts comes with the next write. */
static int compact(struct kv *kv)
{
    leveldb_compact_range(kv->db, NULL, 0, NULL, 0); /* the memtable first */
    return KV_OK;
}

/* An empty batch with the sync option syncs the log in use. Of an older log, whose memtable is
 * still being compacted, the engine promises nothing until its table is written. */
static int sync_store(struct kv *kv)
{
    char *message = NULL;
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    leveldb_writeoptions_t *options = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(options, 1);
    leveldb_write(kv->db, options, batch, &message);
    leveldb_writeoptions_destroy(options);
    leveldb_writebatch_destroy(batch);
    return message == NULL ? KV_OK : failed(message);
}

/* What was set, since the C API reads nothing back. */
static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    int used = snprintf(text, capacity,
                        "options=not read back by the C API; if not listed, as "
                        "shipped: %s\nsync=%s\n",
                        shipped, kv->sync ? "each write" : "off");
    if (kv->buffer > 0 && used < (int)capacity)
        used += snprintf(text + used, capacity - used, "write_buffer=%zu\n", kv->buffer);
    if (kv->block_cache > 0 && used < (int)capacity)
        used += snprintf(text + used, capacity - used, "block_cache=%zu\n", kv->block_cache);
    if (kv->bloom_bits > 0 && used < (int)capacity)
        used += snprintf(text + used, capacity - used, "bloom_bits=%u\n", kv->bloom_bits);
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS,
    .name = KV_NAME,
    .max_key = UINT32_MAX / 4, /* a block's offsets are 32 bits, and it holds both */
    .max_value = UINT32_MAX / 4,
    .settings = settings,
    .default_durability = "process",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .scan = scan,
    .compact = compact,
    .sync = sync_store,
    .effective_options = effective_options,
};
