/* TokuDB's storage library, PerconaFT: a fractal tree in a transactional environment, as shipped
 * but for the time that it waits for a lock. So opened, a write without a transaction of its own is
 * not synced, a batch is one transaction and is. */
#include "tokudb_settings.h"

#include <stdlib.h>
#include <string.h>
#include <tokudb.h>

#define LOCK_TIMEOUT_MS 600000 /* as shipped 0: whoever meets a lock fails at once */

struct kv {
    DB_ENV *environment;
    DB *db;
    uint32_t commit;  /* flags of a batch's commit */
    const char *sync; /* what is synced */
};

extern const struct kv_driver kv_driver;

static const char *version(void)
{
    static char text[32];
    int major, minor, patch;
    db_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

static int failed(int code)
{
    if (code == DB_NOTFOUND)
        return KV_NOT_FOUND;
    if (code == DB_KEYEXIST)
        return KV_EXISTS;
    return kv_fail("error %d: %s", code, db_strerror(code));
}

/* The environment can't be closed before its database. */
static int close_store(struct kv *kv)
{
    int code = kv->db == NULL ? 0 : kv->db->close(kv->db, 0);
    int closed = kv->environment == NULL ? 0 : kv->environment->close(kv->environment, 0);
    free(kv);
    if (code == 0)
        code = closed;
    return code == 0 ? KV_OK : failed(code);
}

static int open_environment(struct kv *kv, const char *path, const struct kv_option *options,
                            size_t count)
{
    DB_ENV *environment;
    uint64_t memory = kv_number(options, count, "memory");
    int code = db_env_create(&environment, 0);
    if (code != 0)
        return code;
    kv->environment = environment;
    if (memory != 0)
        code = environment->set_cachesize(environment, memory >> 30, memory & ((1 << 30) - 1), 1);
    if (code == 0)
        code = environment->open(environment, path,
                                 DB_CREATE | DB_PRIVATE | DB_THREAD | DB_RECOVER | DB_INIT_MPOOL |
                                     DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_TXN,
                                 0666);
    if (code == 0 && kv_is(options, count, "durability", "sync")) /* open forgets it */
        code = environment->set_flags(environment, DB_AUTO_COMMIT, 1);
    return code != 0 ? code : environment->set_lock_timeout(environment, LOCK_TIMEOUT_MS, NULL);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->sync = "each batch, no single write";
    if (kv_is(options, count, "durability", "sync"))
        opened->sync = "each write";
    if (kv_is(options, count, "durability", "none")) {
        opened->sync = "off";
        opened->commit = DB_TXN_NOSYNC;
    }
    int code = open_environment(opened, path, options, count);
    if (code == 0)
        code = db_create(&opened->db, opened->environment, 0);
    if (code == 0)
        code = set_compression(opened->db, options, count);
    if (code == 0)
        code = opened->db->open(opened->db, NULL, "records", NULL, DB_BTREE, DB_CREATE | DB_THREAD,
                                0666);
    if (code != 0) {
        close_store(opened);
        return failed(code);
    }
    *kv = opened;
    return KV_OK;
}

static DBT dbt(struct kv_slice slice)
{
    DBT thang;
    memset(&thang, 0, sizeof thang);
    thang.data = (void *)(uintptr_t)slice.data;
    thang.size = (uint32_t)slice.size;
    return thang;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    DBT k = dbt(key), v = dbt((struct kv_slice){buffer, 0});
    v.ulen = capacity > UINT32_MAX ? UINT32_MAX : (uint32_t)capacity;
    v.flags = DB_DBT_USERMEM;
    int code = kv->db->get(kv->db, NULL, &k, &v, 0);
    *size = v.size;
    if (code == DB_BUFFER_SMALL)
        return KV_TOO_LARGE;
    return code == 0 ? KV_OK : failed(code);
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    DBT k = dbt(key), v = dbt(value);
    int code = kv->db->put(kv->db, NULL, &k, &v, DB_NOOVERWRITE);
    return code == 0 ? KV_OK : failed(code);
}

static int ignore(const DBT *key, const DBT *value, void *context)
{
    (void)key;
    (void)value;
    (void)context;
    return 0;
}

/* Looks whether the key exists, without a copy of its value. */
static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    DBT k = dbt(key), v = dbt(value);
    int code = kv->db->getf_set(kv->db, NULL, 0, &k, ignore, NULL);
    if (code == 0)
        code = kv->db->put(kv->db, NULL, &k, &v, 0);
    return code == 0 ? KV_OK : failed(code);
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    DBT k = dbt(key);
    int code = kv->db->del(kv->db, NULL, &k, 0);
    return code == 0 ? KV_OK : failed(code);
}

static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    DB_TXN *txn;
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    int code = kv->environment->txn_begin(kv->environment, NULL, &txn, 0);
    if (code != 0)
        return failed(code);
    for (size_t i = 0; i < count && code == 0; i++) {
        DBT k = dbt(records[i].key), v = dbt(records[i].value);
        code = kv->db->put(kv->db, txn, &k, &v, 0);
    }
    if (code == 0)
        code = txn->commit(txn, kv->commit);
    else
        txn->abort(txn);
    return code == 0 ? KV_OK : failed(code);
}

/* Moves to the record where a walk from `from` begins. */
static int seek(DBC *cursor, struct kv_slice from, bool back, DBT *k, DBT *v)
{
    *k = dbt(from);
    if (from.size == 0)
        return back ? DB_NOTFOUND : cursor->c_get(cursor, k, v, DB_FIRST);
    int code = cursor->c_get(cursor, k, v, DB_SET_RANGE);
    if (back && code == DB_NOTFOUND) /* all keys are less */
        return cursor->c_get(cursor, k, v, DB_LAST);
    if (back && code == 0 && !kv_same((struct kv_slice){k->data, k->size}, from))
        return cursor->c_get(cursor, k, v, DB_PREV);
    return code;
}

/* Visits records until the visitor ends it or there are no more. */
static int visit_all(DBC *cursor, struct kv_slice from, bool back, kv_visit visit, void *context)
{
    DBT k, v = dbt((struct kv_slice){NULL, 0});
    int code = seek(cursor, from, back, &k, &v);
    while (code == 0 && visit(context, (struct kv_slice){k.data, k.size},
                              (struct kv_slice){v.data == NULL ? "" : v.data, v.size}) == 0)
        code = cursor->c_get(cursor, &k, &v, back ? DB_PREV : DB_NEXT);
    return code == DB_NOTFOUND ? 0 : code;
}

/* A cursor needs a transaction; this one neither locks nor waits for locks. */
static int walk(struct kv *kv, struct kv_slice from, bool back, kv_visit visit, void *context)
{
    DB_TXN *txn;
    DBC *cursor;
    int code = kv->environment->txn_begin(kv->environment, NULL, &txn,
                                          DB_TXN_SNAPSHOT | DB_TXN_READ_ONLY);
    if (code != 0)
        return failed(code);
    code = kv->db->cursor(kv->db, txn, &cursor, 0);
    if (code == 0) {
        code = visit_all(cursor, from, back, visit, context);
        int closed = cursor->c_close(cursor);
        if (code == 0)
            code = closed;
    }
    int committed = txn->commit(txn, 0);
    if (code == 0)
        code = committed;
    return code == 0 ? KV_OK : failed(code);
}

static int scan(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, from, false, visit, context);
}

static int scan_back(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, from, true, visit, context);
}

/* What the engine's OPTIMIZE TABLE does: a message to all leaves, and then all messages that wait
 * in inner nodes are brought down to theirs. */
static int compact(struct kv *kv)
{
    uint64_t loops;
    int code = kv->db->optimize(kv->db);
    if (code == 0)
        code = kv->db->hot_optimize(kv->db, NULL, NULL, NULL, NULL, &loops);
    return code == 0 ? KV_OK : failed(code);
}

static int sync_store(struct kv *kv)
{
    int code = kv->environment->log_flush(kv->environment, NULL);
    return code == 0 ? KV_OK : failed(code);
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    uint32_t page, read_page, fanout;
    uint64_t cache;
    TOKU_COMPRESSION_METHOD method;
    int code = kv->db->get_pagesize(kv->db, &page);
    if (code == 0)
        code = kv->db->get_readpagesize(kv->db, &read_page);
    if (code == 0)
        code = kv->db->get_fanout(kv->db, &fanout);
    if (code == 0)
        code = kv->db->get_compression_method(kv->db, &method);
    if (code == 0)
        code = get_cache_size(kv->environment, &cache);
    if (code != 0)
        return failed(code);
    snprintf(text, capacity,
             "page_size=%u\nread_page_size=%u\nfanout=%u\nsync=%s\ncache_size=%llu\n"
             "compression=%s\n",
             page, read_page, fanout, kv->sync, (unsigned long long)cache,
             compression_name(method));
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS,
    .name = "tokudb",
    .max_key = 32 << 10,
    .max_value = 32 << 20,
    .settings = settings,
    .default_durability = "none",
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
