/* RocksDB through its C API, options as shipped.
 * Values are read pinned, so that a get copies them once and an existence check not at all. */
#include "rocksdb_settings.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

struct kv {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
    char path[PATH_MAX];
};

/* The C API states no version, so it is taken from the name of the library that is loaded:
 * librocksdb.so.7.8.3. */
static const char *version(void)
{
    static char path[PATH_MAX], text[64];
    Dl_info library;
    void *function;
    rocksdb_t *(*open)(const rocksdb_options_t *, const char *, char **) = rocksdb_open;
    memcpy(&function, &open, sizeof function); /* ISO C has no such cast */
    if (dladdr(function, &library) == 0 || realpath(library.dli_fname, path) == NULL)
        return "unknown";
    const char *suffix = strstr(path, ".so.");
    snprintf(text, sizeof text, "%.16s" KV_BUILD,
             suffix == NULL ? "unknown" : suffix + strlen(".so."));
    return text;
}

/* KV_OK if the engine left no message; otherwise keeps its text and frees it. */
static int status_of(char *message)
{
    if (message == NULL)
        return KV_OK;
    kv_fail("%s", message);
    rocksdb_free(message);
    return KV_ERROR;
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

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char *message = NULL;
    if (strlen(path) >= PATH_MAX)
        return kv_fail("path too long");
    if (kv_is(options, count, "log", "off") && kv_durable(options, count))
        return kv_fail("log=off: nothing is left of durability=%s",
                       kv_given(options, count, "durability"));
    if (kv_number(options, count, "background_jobs") > MAX_JOBS)
        return kv_fail("background_jobs: more than %d", MAX_JOBS);
    if (kv_number(options, count, "compress_from_level") >= LEVELS)
        return kv_fail("compress_from_level: more than %d", LEVELS - 1);
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    strcpy(opened->path, path);
    opened->options = rocksdb_options_create();
    opened->read = rocksdb_readoptions_create();
    opened->write = rocksdb_writeoptions_create();
    rocksdb_options_set_create_if_missing(opened->options, 1);
    set_options(opened->options, options, count);
    set_write_options(opened->write, options, count);
    if (kv_is(options, count, "checks", "off")) {
        rocksdb_options_set_paranoid_checks(opened->options, 0);
        rocksdb_readoptions_set_verify_checksums(opened->read, 0);
    }
    opened->db = rocksdb_open(opened->options, path, &message);
    if (message != NULL) {
        close_store(opened);
        return status_of(message);
    }
    *kv = opened;
    return KV_OK;
}

/* Pins the value of a key; the caller destroys it. */
static int find(struct kv *kv, struct kv_slice key, rocksdb_pinnableslice_t **value)
{
    char *message = NULL;
    *value = rocksdb_get_pinned(kv->db, kv->read, key.data, key.size, &message);
    if (message != NULL)
        return status_of(message);
    return *value == NULL ? KV_NOT_FOUND : KV_OK;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    rocksdb_pinnableslice_t *pinned;
    struct kv_slice value;
    int status = find(kv, key, &pinned);
    if (status != KV_OK)
        return status;
    value.data = rocksdb_pinnableslice_value(pinned, &value.size);
    status = kv_copy(value, buffer, capacity, size);
    rocksdb_pinnableslice_destroy(pinned);
    return status;
}

static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    char *message = NULL;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (size_t i = 0; i < count; i++)
        rocksdb_writebatch_put(batch, records[i].key.data, records[i].key.size,
                               records[i].value.data, records[i].value.size);
    rocksdb_write(kv->db, kv->write, batch, &message);
    rocksdb_writebatch_destroy(batch);
    return status_of(message);
}

/* The engine has no insert and no update, so a look at the key comes first. */
static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    if (mode == KV_PUT)
        return write_batch(kv, records, count);
    char *message = NULL;
    rocksdb_pinnableslice_t *old;
    struct kv_slice key = records->key;
    int status = find(kv, key, &old);
    if (status == KV_OK)
        rocksdb_pinnableslice_destroy(old);
    if (status != (mode == KV_INSERT ? KV_NOT_FOUND : KV_OK))
        return status == KV_OK ? KV_EXISTS : status;
    if (mode == KV_REMOVE)
        rocksdb_delete(kv->db, kv->write, key.data, key.size, &message);
    else
        rocksdb_put(kv->db, kv->write, key.data, key.size, records->value.data, records->value.size,
                    &message);
    return status_of(message);
}

static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    bool back = direction == KV_BACKWARD;
    char *message = NULL;
    rocksdb_iterator_t *cursor = rocksdb_create_iterator(kv->db, kv->read);
    (back ? rocksdb_iter_seek_for_prev : rocksdb_iter_seek)(cursor, from.data, from.size);
    while (rocksdb_iter_valid(cursor)) {
        struct kv_slice key, value;
        key.data = rocksdb_iter_key(cursor, &key.size);
        value.data = rocksdb_iter_value(cursor, &value.size);
        if (visit(context, key, value) != 0)
            break;
        (back ? rocksdb_iter_prev : rocksdb_iter_next)(cursor);
    }
    rocksdb_iter_get_error(cursor, &message);
    rocksdb_iter_destroy(cursor);
    return status_of(message);
}

static int flush(struct kv *kv)
{
    char *message = NULL;
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create(); /* waits, as shipped */
    rocksdb_flush(kv->db, options, &message);
    rocksdb_flushoptions_destroy(options);
    return status_of(message);
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

/* A checkpoint: it flushes the memtables, links the table files and copies the manifest. It makes the
 * folder itself. */
static int backup(struct kv *kv, const char *path)
{
    char *message = NULL;
    if (rmdir(path) != 0)
        return kv_fail("%s: %s", path, strerror(errno));
    rocksdb_checkpoint_t *checkpoint = rocksdb_checkpoint_object_create(kv->db, &message);
    if (message != NULL)
        return status_of(message);
    rocksdb_checkpoint_create(checkpoint, path, 0, &message);
    rocksdb_checkpoint_object_destroy(checkpoint);
    return status_of(message);
}

static int sync_store(struct kv *kv)
{
    char *message = NULL;
    if (rocksdb_writeoptions_get_disable_WAL(kv->write))
        return flush(kv);
    rocksdb_flush_wal(kv->db, 1, &message);
    return status_of(message);
}

/* From what the engine itself wrote down of its options when it was opened. */
static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    char *message = NULL, **names;
    uint64_t cache;
    size_t families;
    rocksdb_options_t *db, **family;
    if (rocksdb_property_int(kv->db, "rocksdb.block-cache-capacity", &cache) != 0)
        return kv_fail("the size of the block cache can't be read");
    rocksdb_env_t *env = rocksdb_create_default_env();
    rocksdb_cache_t *unused = rocksdb_cache_create_lru(0);
    rocksdb_load_latest_options(kv->path, env, false, unused, &db, &families, &names, &family,
                                &message);
    rocksdb_cache_destroy(unused);
    rocksdb_env_destroy(env);
    if (message != NULL)
        return status_of(message);
    snprintf(text, capacity,
             "write_buffer_size=%zu\nmax_write_buffer_number=%d\nmax_background_jobs=%d\n"
             "max_background_compactions=%d\ntarget_file_size_base=%" PRIu64
             "\nmax_bytes_for_level_base=%" PRIu64 "\ndisable_auto_compactions=%d\n"
             "level0_triggers=%d %d %d\nblock_cache=%" PRIu64
             "\ncompression=%s\nuse_fsync=%d\nuse_direct_reads=%d\n"
             "use_direct_io_for_flush_and_compaction=%d\nwal=%s\nsync=%s\n",
             rocksdb_options_get_write_buffer_size(family[0]),
             rocksdb_options_get_max_write_buffer_number(family[0]),
             rocksdb_options_get_max_background_jobs(db),
             rocksdb_options_get_max_background_compactions(db),
             rocksdb_options_get_target_file_size_base(family[0]),
             rocksdb_options_get_max_bytes_for_level_base(family[0]),
             rocksdb_options_get_disable_auto_compactions(family[0]),
             rocksdb_options_get_level0_file_num_compaction_trigger(family[0]),
             rocksdb_options_get_level0_slowdown_writes_trigger(family[0]),
             rocksdb_options_get_level0_stop_writes_trigger(family[0]), cache,
             compression_name((unsigned)rocksdb_options_get_compression(family[0])),
             rocksdb_options_get_use_fsync(db), rocksdb_options_get_use_direct_reads(db),
             rocksdb_options_get_use_direct_io_for_flush_and_compaction(db),
             rocksdb_writeoptions_get_disable_WAL(kv->write) ? "off" : "on",
             rocksdb_writeoptions_get_sync(kv->write) ? "each write" : "off");
    rocksdb_load_latest_options_destroy(db, names, family, families);
    return add_unread(kv->path, text, capacity);
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS,
    .name = KV_NAME,
    .max_key = 8 << 20,          /* the engine's advice */
    .max_value = UINT32_MAX / 2, /* lengths are 32 bits in a block */
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
    .backup = backup,
    .sync = sync_store,
    .effective_options = effective_options,
};
