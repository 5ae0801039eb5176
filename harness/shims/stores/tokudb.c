/* TokuDB's storage library, PerconaFT: a fractal tree in a transactional environment, as shipped
 * except for the time that it waits for a lock. As shipped it syncs each batch, which is a
 * transaction, but no other write. The engine's calls return 0 or an error, so `a ?: b` calls b
 * only after a succeeded, and is the first error of the two. */
#include "../shim.h"

#include <errno.h>
#include <pthread.h>
#include <tokudb.h>

#define LOCK_TIMEOUT_MS 600000 /* as shipped 0: a call that meets a lock fails at once */

/* Its shared library calls this when it is loaded; the static one leaves it to the program. */
int toku_ydb_init(void) __asm__("_Z13toku_ydb_initv"); /* src/ydb.h, in C++ */

struct kv {
    DB_ENV *environment;
    DB *db;
    uint32_t commit;  /* flags of a batch's commit */
    const char *sync; /* what is synced */
};

static const struct kv_setting settings[] = {
    {"durability", "none", .means = "no write is synced, nor is a batch"},
    {"durability", "process",
     .lacks = "the engine writes its log to the operating system only to sync it"},
    {"durability", "recoverable",
     .lacks = "the engine writes its log to the operating system only to sync it"},
    {"durability", "sync",
     .means = "DB_AUTO_COMMIT: each write is a transaction whose commit is synced"},
    {"durability", "*", .lacks = "its updates are atomic at every level that survives a crash"},
    {"memory", .least = 4 << 20,
     .means = "set_cachesize gets it all; the engine states and allows a tenth more"},
    {"compression", "none", .means = "TOKU_NO_COMPRESSION"},
    {"compression", "snappy", .means = "TOKU_SNAPPY_METHOD"},
    {"compression", "zlib", .means = "TOKU_ZLIB_METHOD"},
    {"compression", "lzma", .means = "TOKU_LZMA_METHOD"},
    {"compression", "*",
     .lacks = "the engine has none, snappy, zlib, lzma and quicklz, with which it ships"},
    {.name = NULL},
};

static const char *const compressions[] = {
    [TOKU_NO_COMPRESSION] = "none",    [TOKU_DEFAULT_COMPRESSION_METHOD] = "quicklz",
    [TOKU_SNAPPY_METHOD] = "snappy",   [TOKU_ZLIB_METHOD] = "zlib",
    [TOKU_QUICKLZ_METHOD] = "quicklz", [TOKU_LZMA_METHOD] = "lzma",
};
enum { METHODS = sizeof compressions / sizeof *compressions };

static const char *version(void)
{
    static char text[64];
    int major, minor, patch;
    db_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d" KV_BUILD, major, minor, patch);
    return text;
}

static int status(int code)
{
    if (code == DB_NOTFOUND)
        return KV_NOT_FOUND;
    if (code == DB_KEYEXIST)
        return KV_EXISTS;
    return code == 0 ? KV_OK : kv_fail("error %d: %s", code, db_strerror(code));
}

/* The database first: the environment can only be closed after it. */
static int close_store(struct kv *kv)
{
    int code = kv->db == NULL ? 0 : kv->db->close(kv->db, 0);
    int closed = kv->environment == NULL ? 0 : kv->environment->close(kv->environment, 0);
    free(kv);
    return status(code ?: closed);
}

/* A database without a comparison does not open again. */
static int compare(DB *db, const DBT *a, const DBT *b)
{
    size_t least = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->data, b->data, least);
    (void)db;
    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

static pthread_once_t started = PTHREAD_ONCE_INIT;
static int start_code;

/* The name becomes part of the names of files. */
static void start(void)
{
    start_code = toku_ydb_init() ?: db_env_set_toku_product_name("tokudb");
}

static int open_environment(struct kv *kv, const char *path, uint64_t memory, bool synced)
{
    uint32_t how = DB_CREATE | DB_PRIVATE | DB_THREAD | DB_RECOVER | DB_INIT_MPOOL | DB_INIT_LOCK |
                   DB_INIT_LOG | DB_INIT_TXN;
    int code = pthread_once(&started, start) ?: start_code;
    code = code ?: db_env_create(&kv->environment, 0);
    DB_ENV *environment = kv->environment;
    code = code ?: environment->set_default_bt_compare(environment, compare);
    if (code == 0 && memory != 0)
        code = environment->set_cachesize(environment, memory >> 30, memory & ((1 << 30) - 1), 1);
    code = code ?: environment->open(environment, path, how, 0666);
    if (code == 0 && synced) /* open resets the flag */
        code = environment->set_flags(environment, DB_AUTO_COMMIT, 1);
    return code ?: environment->set_lock_timeout(environment, LOCK_TIMEOUT_MS, NULL);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    bool synced = kv_is(options, count, "durability", "sync");
    bool none = kv_is(options, count, "durability", "none");
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->sync = synced ? "each write" : none ? "off" : "each batch, no single write";
    opened->commit = none ? DB_TXN_NOSYNC : 0;
    int code = open_environment(opened, path, kv_number(options, count, "memory"), synced);
    code = code ?: db_create(&opened->db, opened->environment, 0);
    DB *db = opened->db;
    for (int i = 0; i < METHODS && code == 0; i++) /* takes effect in a new database only */
        if (compressions[i] != NULL && kv_is(options, count, "compression", compressions[i]))
            code = db->set_compression_method(db, (TOKU_COMPRESSION_METHOD)i);
    code = code ?: db->open(db, NULL, "records", NULL, DB_BTREE, DB_CREATE | DB_THREAD, 0666);
    if (code != 0) {
        close_store(opened);
        return status(code);
    }
    *kv = opened;
    return KV_OK;
}

static DBT dbt(struct kv_slice slice)
{
    return (DBT){.data = (void *)(uintptr_t)slice.data, .size = (uint32_t)slice.size};
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    DBT k = dbt(key), v = {.data = buffer, .flags = DB_DBT_USERMEM};
    v.ulen = capacity > UINT32_MAX ? UINT32_MAX : (uint32_t)capacity;
    int code = kv->db->get(kv->db, NULL, &k, &v, 0);
    *size = v.size;
    return code == DB_BUFFER_SMALL ? KV_TOO_LARGE : status(code);
}

static int ignore(const DBT *key, const DBT *value, void *context)
{
    (void)key, (void)value, (void)context;
    return 0;
}

/* A batch is one transaction; to any other write the engine gives its own. */
static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    DB *db = kv->db;
    DB_TXN *txn = NULL;
    int code = mode == KV_PUT ? kv->environment->txn_begin(kv->environment, NULL, &txn, 0) : 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        DBT k = dbt(records[i].key), v = dbt(records[i].value);
        if (mode == KV_UPDATE) /* looks for the key without copying its value */
            code = db->getf_set(db, NULL, 0, &k, ignore, NULL);
        if (mode == KV_REMOVE)
            code = db->del(db, NULL, &k, 0);
        else if (code == 0)
            code = db->put(db, txn, &k, &v, mode == KV_INSERT ? DB_NOOVERWRITE : 0);
    }
    if (txn != NULL && code == 0)
        code = txn->commit(txn, kv->commit);
    else if (txn != NULL)
        txn->abort(txn);
    return status(code);
}

/* Moves to the record where a scan begins. */
static int seek(DBC *cursor, struct kv_slice from, bool back, DBT *k, DBT *v)
{
    *k = dbt(from);
    int code = cursor->c_get(cursor, k, v, from.size == 0 ? DB_FIRST : DB_SET_RANGE);
    if (back && code == DB_NOTFOUND) /* all keys are less */
        return cursor->c_get(cursor, k, v, DB_LAST);
    if (back && code == 0 && !kv_same((struct kv_slice){k->data, k->size}, from))
        return cursor->c_get(cursor, k, v, DB_PREV);
    return code;
}

/* A cursor needs a transaction; this one neither locks nor waits for locks. */
static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    DB_TXN *txn;
    DBC *cursor;
    bool back = direction == KV_BACKWARD;
    if (back && from.size == 0) /* no key is less */
        return KV_OK;
    int code =
        kv->environment->txn_begin(kv->environment, NULL, &txn, DB_TXN_SNAPSHOT | DB_TXN_READ_ONLY);
    if (code != 0)
        return status(code);
    code = kv->db->cursor(kv->db, txn, &cursor, 0);
    if (code == 0) {
        DBT k, v = {0};
        code = seek(cursor, from, back, &k, &v);
        while (code == 0 && visit(context, (struct kv_slice){k.data, k.size},
                                  (struct kv_slice){v.data == NULL ? "" : v.data, v.size}) == 0)
            code = cursor->c_get(cursor, &k, &v, back ? DB_PREV : DB_NEXT);
        int closed = cursor->c_close(cursor);
        code = code == 0 || code == DB_NOTFOUND ? closed : code;
    }
    int committed = txn->commit(txn, 0);
    return status(code ?: committed);
}

/* As the engine's OPTIMIZE TABLE: sends a message to all leaves, then brings all messages that wait
 * in inner nodes down to theirs. */
static int compact(struct kv *kv)
{
    uint64_t loops;
    DB *db = kv->db;
    return status(db->optimize(db) ?: db->hot_optimize(db, NULL, NULL, NULL, NULL, &loops));
}

static int sync_store(struct kv *kv)
{
    return status(kv->environment->log_flush(kv->environment, NULL));
}

/* Only the engine's status has the limit in force: get_cachesize returns what was set. */
static int get_cache_size(DB_ENV *environment, uint64_t *size)
{
    uint64_t capacity, count = 0, panic;
    fs_redzone_state redzone;
    char text[64];
    int code = environment->get_engine_status_num_rows(environment, &capacity);
    if (code != 0)
        return code;
    TOKU_ENGINE_STATUS_ROW rows = calloc(capacity, sizeof *rows);
    if (rows == NULL)
        return ENOMEM;
    code = environment->get_engine_status(environment, rows, capacity, &count, &redzone, &panic,
                                          text, sizeof text, TOKU_ENGINE_STATUS);
    for (uint64_t i = 0; code == 0 && i < count; i++)
        if (strcmp(rows[i].keyname, "CT_SIZE_LIMIT") == 0)
            *size = rows[i].value.num;
    free(rows);
    return code;
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    DB *db = kv->db;
    uint32_t page, read_page, fanout;
    uint64_t cache = 0;
    TOKU_COMPRESSION_METHOD method;
    int code = db->get_pagesize(db, &page) ?: db->get_readpagesize(db, &read_page)
               ?: db->get_fanout(db, &fanout) ?: db->get_compression_method(db, &method)
               ?: get_cache_size(kv->environment, &cache);
    if (code != 0)
        return status(code);
    bool known = (int)method >= 0 && (int)method < METHODS && compressions[method] != NULL;
    snprintf(text, capacity,
             "page_size=%u\nread_page_size=%u\nfanout=%u\nsync=%s\ncache_size=%llu\n"
             "compression=%s\n",
             page, read_page, fanout, kv->sync, (unsigned long long)cache,
             known ? compressions[method] : "other");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS,
    .name = KV_NAME,
    .max_key = 32 << 10,
    .max_value = 32 << 20,
    .settings = settings,
    .default_durability = "none",
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
