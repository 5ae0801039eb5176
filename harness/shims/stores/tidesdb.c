/* TidesDB: an LSM tree with a log, and a second log for large values, both shared by all column
 * families; the store is one of them. As shipped a write waits in the process. The engine answers
 * TDB_ERR_LOCKED when something else holds what a call needs, and asks to try again. */
#include "tidesdb_settings.h"

#include <tidesdb_version.h>
#include <time.h>

#define FAMILY "records"
#define PATIENCE 60 /* seconds to try again for */

struct kv {
    tidesdb_t *db;
    tidesdb_column_family_t *family;
    tidesdb_txn_t *reader; /* one a session; each read sees what is committed */
    tidesdb_config_t config;
};

static const char *version(void)
{
    return TIDESDB_VERSION;
}

static int status_of(int code)
{
    if (code == TDB_SUCCESS)
        return KV_OK;
    return code == TDB_ERR_NOT_FOUND ? KV_NOT_FOUND : kv_fail("%s", tidesdb_strerror(code));
}

/* Whether to repeat a call. `deadline` is 0 before the first one. */
static bool again(int code, time_t *deadline)
{
    struct timespec nap = {.tv_nsec = 100000};
    if (code != TDB_ERR_LOCKED)
        return false;
    if (*deadline == 0)
        *deadline = time(NULL) + PATIENCE;
    nanosleep(&nap, NULL);
    return time(NULL) < *deadline;
}

static int end(struct kv *session)
{
    tidesdb_txn_free(session->reader);
    free(session);
    return KV_OK;
}

/* A session is a copy with a reader of its own. */
static int begin(struct kv *kv, struct kv **session)
{
    struct kv *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    *opened = *kv;
    int code =
        tidesdb_txn_begin_with_isolation(kv->db, TDB_ISOLATION_READ_COMMITTED, &opened->reader);
    if (code == TDB_SUCCESS)
        *session = opened;
    else
        free(opened);
    return status_of(code);
}

/* A family that is there has the settings with which it was made. */
static int open_family(struct kv *kv, const struct kv_option *options, size_t count)
{
    tidesdb_column_family_config_t config = configure_family(options, count);
    int code = tidesdb_create_column_family(kv->db, FAMILY, &config);
    if (code != TDB_SUCCESS && code != TDB_ERR_EXISTS)
        return status_of(code);
    kv->family = tidesdb_get_column_family(kv->db, FAMILY);
    return kv->family == NULL ? kv_fail("the column family is missing") : KV_OK;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    if (kv_number(options, count, "background_threads") > MAX_THREADS)
        return kv_fail("background_threads: more than %d", MAX_THREADS);
    struct kv opened = {.config = configure(path, options, count)};
    int status = status_of(tidesdb_open(&opened.config, &opened.db));
    if (status != KV_OK)
        return status;
    status = open_family(&opened, options, count);
    if (status == KV_OK)
        status = begin(&opened, kv);
    if (status != KV_OK)
        tidesdb_close(opened.db);
    return status;
}

static int close_store(struct kv *kv)
{
    tidesdb_t *db = kv->db;
    end(kv);
    return status_of(tidesdb_close(db));
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    time_t deadline = 0;
    uint8_t *value = NULL;
    size_t length = 0;
    int code;
    do
        code = tidesdb_txn_get(kv->reader, kv->family, key.data, key.size, &value, &length);
    while (again(code, &deadline));
    if (code != TDB_SUCCESS)
        return status_of(code);
    int status = kv_copy((struct kv_slice){value == NULL ? (void *)"" : value, length}, buffer,
                         capacity, size);
    tidesdb_free(value);
    return status;
}

/* KV_OK when the key is there or not, as the mode wants it. */
static int expect(struct kv *kv, tidesdb_txn_t *txn, enum kv_mode mode, struct kv_slice key)
{
    time_t deadline = 0;
    int code;
    do
        code = tidesdb_txn_contains(txn, kv->family, key.data, key.size);
    while (again(code, &deadline));
    if (code == TDB_SUCCESS)
        return mode == KV_INSERT ? KV_EXISTS : KV_OK;
    return mode == KV_INSERT && code == TDB_ERR_NOT_FOUND ? KV_OK : status_of(code);
}

static int write_one(struct kv *kv, tidesdb_txn_t *txn, enum kv_mode mode,
                     const struct kv_record *record)
{
    struct kv_slice key = record->key, value = record->value;
    int status = mode == KV_PUT ? KV_OK : expect(kv, txn, mode, key);
    if (status != KV_OK)
        return status;
    if (mode == KV_REMOVE)
        return status_of(tidesdb_txn_delete(txn, kv->family, key.data, key.size));
    return status_of(
        tidesdb_txn_put(txn, kv->family, key.data, key.size, value.data, value.size, 0));
}

/* A commit that met TDB_ERR_LOCKED has written nothing, and its transaction is still open. */
static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    time_t deadline = 0;
    tidesdb_txn_t *txn;
    int status = status_of(tidesdb_txn_begin(kv->db, &txn)), code;
    if (status != KV_OK)
        return status;
    for (size_t i = 0; i < count && status == KV_OK; i++)
        status = write_one(kv, txn, mode, &records[i]);
    if (status == KV_OK) {
        do
            code = tidesdb_txn_commit(txn);
        while (again(code, &deadline));
        status = status_of(code);
    }
    tidesdb_txn_free(txn);
    return status;
}

/* Moves to the first record of a scan, or with `started` to the next one. The engine refuses to
 * seek an empty key. */
static int move(tidesdb_iter_t *cursor, struct kv_slice from, bool back, bool started)
{
    time_t deadline = 0;
    int code;
    do {
        if (started)
            code = back ? tidesdb_iter_prev(cursor) : tidesdb_iter_next(cursor);
        else if (from.size == 0)
            code = back ? TDB_ERR_NOT_FOUND : tidesdb_iter_seek_to_first(cursor);
        else
            code = back ? tidesdb_iter_seek_for_prev(cursor, from.data, from.size)
                        : tidesdb_iter_seek(cursor, from.data, from.size);
    } while (again(code, &deadline));
    return code;
}

/* Shows the visitor the record at which the cursor stands. */
static int show(tidesdb_iter_t *cursor, kv_visit visit, void *context, int *ended)
{
    uint8_t *key = NULL, *value = NULL;
    size_t key_size, value_size;
    int code = tidesdb_iter_key_value(cursor, &key, &key_size, &value, &value_size);
    if (code == TDB_SUCCESS)
        *ended = visit(context, (struct kv_slice){key, key_size},
                       (struct kv_slice){value == NULL ? (void *)"" : value, value_size});
    tidesdb_free(key);
    tidesdb_free(value);
    return code;
}

static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    bool back = direction == KV_BACKWARD;
    time_t deadline = 0;
    tidesdb_iter_t *cursor;
    int code, ended = 0;
    do
        code = tidesdb_iter_new(kv->reader, kv->family, &cursor);
    while (again(code, &deadline));
    if (code != TDB_SUCCESS)
        return status_of(code);
    code = move(cursor, from, back, false);
    while (code == TDB_SUCCESS && (code = show(cursor, visit, context, &ended)) == TDB_SUCCESS &&
           ended == 0)
        code = move(cursor, from, back, true);
    tidesdb_iter_free(cursor);
    return code == TDB_ERR_NOT_FOUND ? KV_OK : status_of(code);
}

/* Flushes, then merges every table: all keys are at or above one zero byte. */
static int compact(struct kv *kv)
{
    time_t deadline = 0;
    int code;
    do {
        code = tidesdb_flush_memtable(kv->db);
        if (code == TDB_SUCCESS)
            code = tidesdb_compact_range(kv->db, kv->family, (const uint8_t *)"", 1, NULL, 0);
    } while (again(code, &deadline));
    return status_of(code);
}

/* Flushes, then copies tables and the log of values. */
static int backup(struct kv *kv, const char *path)
{
    time_t deadline = 0;
    int code;
    do
        code = tidesdb_backup(kv->db, path);
    while (again(code, &deadline));
    return status_of(code);
}

/* Syncing the log alone would leave out the log of values. */
static int sync_store(struct kv *kv)
{
    time_t deadline = 0;
    int code;
    do
        code = tidesdb_checkpoint(kv->db);
    while (again(code, &deadline));
    return status_of(code);
}

/* The engine states the family's settings; those of the whole database are as set. */
static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    tidesdb_cf_stats_t stats;
    time_t deadline = 0;
    int code;
    do
        code = tidesdb_get_cf_stats(kv->family, &stats);
    while (again(code, &deadline));
    if (code != TDB_SUCCESS)
        return status_of(code);
    const tidesdb_column_family_config_t *config = &stats.config;
    int mode = kv->config.memtable_sync_mode;
    uint8_t first = config->encoding_count == 0 ? TDB_COMPRESS_NONE : config->encoding_pipeline[0];
    snprintf(text, capacity,
             "write_buffer=%zu\nblock_cache=%zu\nvalue_separation=%zu\nblock_size=%zu\nbloom=%s\n"
             "bloom_fpr=%g\nlevel_size_ratio=%zu\ncompression=%s\nsync=%s\nsync_mode=%s\n",
             kv->config.memtable_write_buffer_size, kv->config.block_cache_size,
             kv->config.value_separation_threshold, config->btree_klog_block_size,
             config->enable_bloom_filter ? "on" : "off", config->bloom_fpr,
             config->level_size_ratio, first < COMPRESSIONS ? compressions[first] : "other",
             mode == TDB_SYNC_FULL ? "each write"
             : kv->config.memtable_sync_interval_us == NEVER || mode == TDB_SYNC_NONE
                 ? "off"
                 : "at intervals",
             mode == TDB_SYNC_FULL   ? "full"
             : mode == TDB_SYNC_NONE ? "none"
                                     : "interval");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS,
    .name = KV_NAME,
    .max_key = UINT16_MAX, /* the engine logs a longer one, but can't flush it to a table */
    .max_value = 1 << 30,
    .settings = settings,
    .default_durability = "none",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .begin = begin,
    .end = end,
    .get = get,
    .write = write_records,
    .scan = scan,
    .compact = compact,
    .backup = backup,
    .sync = sync_store,
    .effective_options = effective_options,
};
