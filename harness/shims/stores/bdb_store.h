/* Berkeley DB in one file. As shipped, and as the sources ran it, without an environment; for a
 * durability above none in a private environment with transactions, of which each write is one. It
 * takes no locks and must not be shared by threads, unless it is asked for both. The file that
 * includes this has defined store_name, type, CAPABILITIES and MAX_KEY. */
#include "../kv.h"

#include <db.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "records.db"
#define CHECKPOINT_KIB (32 << 10) /* of log between two checkpoints; what is older is removed */

struct kv {
    DB_ENV *environment; /* NULL: none */
    DB *db;
    bool threads; /* pages are locked, and a call may have to be made again */
};

static const struct kv_setting settings[] = {
    {.name = "durability", .value = "none", .means = "no environment: no log, no transactions"},
    {.name = "durability",
     .value = "process",
     .means = "private environment, each write a transaction, DB_TXN_WRITE_NOSYNC; the engine "
              "still syncs its log before a changed page leaves the cache and before the last page "
              "of the file is freed"},
    {.name = "durability",
     .value = "sync",
     .means = "private environment, each write a transaction, its log synced"},
    {.name = "durability",
     .value = "*",
     .lacks = "its updates are atomic at every level that survives a crash"},
    {.name = "memory",
     .least = 1 << 20,
     .means = "cache_size gets it all; the engine adds a quarter to what is below 500 MiB, and an "
              "environment has a log buffer of 32 KiB besides"},
    {.name = "compression", .value = "none", .means = "the engine has none"},
    {.name = "compression", .value = "*", .lacks = "the engine has no compression"},
    {.name = "threads",
     .value = "on",
     .means = "DB_THREAD and DB_INIT_LOCK, for readers beside the writer; with an environment only"},
    {.name = "threads", .value = "off", .means = "no locks, as shipped"},
    {.name = "page_size",
     .least = 512,
     .means = "bytes, a power of 2 up to 65536; as shipped the block size of the file system"},
    {.name = NULL},
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
    return kv_fail("%s", db_strerror(code));
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

/* Recovers first what an earlier process has left. */
static int open_environment(struct kv *kv, const char *path, uint64_t memory, u_int32_t flags)
{
    DB_ENV *environment;
    int code = db_env_create(&environment, 0);
    if (code != 0)
        return code;
    kv->environment = environment;
    if (memory != 0)
        code = environment->set_cachesize(environment, memory >> 30, memory & ((1 << 30) - 1), 1);
    if (code == 0)
        code = environment->set_flags(environment, flags, 1);
    if (code == 0)
        code = environment->log_set_config(environment, DB_LOG_AUTO_REMOVE, 1);
    if (code == 0 && kv->threads)
        code = environment->set_lk_detect(environment, DB_LOCK_DEFAULT);
    if (code == 0)
        code = environment->open(environment, path,
                                 DB_CREATE | DB_PRIVATE | DB_RECOVER | DB_INIT_MPOOL |
                                     DB_INIT_LOG | DB_INIT_TXN |
                                     (kv->threads ? DB_THREAD | DB_INIT_LOCK : 0),
                                 0666);
    return code;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096];
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    if (snprintf(file, sizeof file, "%s/" FILE_NAME, path) >= (int)sizeof file)
        return kv_fail("path too long");
    bool process = kv_is(options, count, "durability", "process");
    bool logged = process || kv_is(options, count, "durability", "sync");
    uint64_t memory = kv_number(options, count, "memory");
    uint64_t page = kv_number(options, count, "page_size");
    if ((page & (page - 1)) != 0 || page > 65536)
        return kv_fail("page_size %llu is no power of 2 up to 65536", (unsigned long long)page);
    if (logged && memory == 0 && page > 16384)
        memory = 16 * page; /* as the engine does by itself without an environment */
    bool threads = kv_is(options, count, "threads", "on");
    if (threads && !logged)
        return kv_fail("threads=on needs an environment: durability process or sync");
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->threads = threads;
    int code = 0;
    if (logged)
        code = open_environment(opened, path, memory,
                                DB_AUTO_COMMIT | (process ? DB_TXN_WRITE_NOSYNC : 0));
    if (code == 0)
        code = db_create(&opened->db, opened->environment, 0);
    if (code == 0 && memory != 0 && !logged)
        code = opened->db->set_cachesize(opened->db, memory >> 30, memory & ((1 << 30) - 1), 1);
    if (code == 0 && page != 0)
        code = opened->db->set_pagesize(opened->db, page);
    if (code == 0)
        code = opened->db->open(opened->db, NULL, logged ? FILE_NAME : file, NULL, type,
                                DB_CREATE | (threads ? DB_THREAD : 0), 0666);
    if (code != 0) {
        close_store(opened);
        return failed(code);
    }
    *kv = opened;
    return KV_OK;
}

/* Ends a write: where there is a log, keeps it from growing. The engine answers at once as long as
 * too little was logged. */
static int written(struct kv *kv, int code)
{
    if (code == 0 && kv->environment != NULL)
        code = kv->environment->txn_checkpoint(kv->environment, CHECKPOINT_KIB, 0, 0);
    return code == 0 ? KV_OK : failed(code);
}

static DBT dbt(struct kv_slice slice)
{
    DBT thang;
    memset(&thang, 0, sizeof thang);
    thang.data = (void *)(uintptr_t)slice.data;
    thang.size = (u_int32_t)slice.size;
    return thang;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    DBT k = dbt(key), v = dbt((struct kv_slice){buffer, 0});
    v.ulen = capacity > UINT32_MAX ? UINT32_MAX : (u_int32_t)capacity;
    v.flags = DB_DBT_USERMEM;
    int code;
    do /* with threads, the engine breaks a deadlock by refusing one of the two */
        code = kv->db->get(kv->db, NULL, &k, &v, 0);
    while (code == DB_LOCK_DEADLOCK);
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
    int code;
    do
        code = kv->db->put(kv->db, NULL, &k, &v, DB_NOOVERWRITE);
    while (code == DB_LOCK_DEADLOCK);
    return written(kv, code);
}

/* With one writer, the two calls need no transaction around them. */
static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    DBT k = dbt(key), v = dbt(value);
    int code;
    do {
        code = kv->db->exists(kv->db, NULL, &k, 0);
        if (code == 0)
            code = kv->db->put(kv->db, NULL, &k, &v, 0);
    } while (code == DB_LOCK_DEADLOCK);
    return written(kv, code);
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    DBT k = dbt(key);
    int code;
    do
        code = kv->db->del(kv->db, NULL, &k, 0);
    while (code == DB_LOCK_DEADLOCK);
    return written(kv, code);
}

/* One bulk put, in an environment one transaction. The buffer holds the bytes from its start and,
 * from its end, four 32-bit words a record and one that closes the list. */
static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    size_t bytes = (4 * count + 1) * sizeof(u_int32_t);
    for (size_t i = 0; i < count; i++)
        bytes += records[i].key.size + records[i].value.size;
    bytes = (bytes + 1023) / 1024 * 1024; /* the engine asks for a multiple of 4 at least */
    if (bytes > UINT32_MAX)
        return kv_fail("a batch of %zu bytes; the engine takes at most 4 GiB", bytes);
    DBT bulk = dbt((struct kv_slice){malloc(bytes), 0});
    if (bulk.data == NULL)
        return kv_fail("out of memory");
    bulk.ulen = (u_int32_t)bytes;
    bulk.flags = DB_DBT_USERMEM | DB_DBT_BULK;
    void *position;
    DB_MULTIPLE_WRITE_INIT(position, &bulk);
    for (size_t i = 0; i < count && position != NULL; i++)
        DB_MULTIPLE_KEY_WRITE_NEXT(position, &bulk, records[i].key.data, records[i].key.size,
                                   records[i].value.data, records[i].value.size);
    DBT none = dbt((struct kv_slice){"", 0});
    int code = DB_BUFFER_SMALL;
    do
        code = position == NULL ? code : kv->db->put(kv->db, NULL, &bulk, &none, DB_MULTIPLE_KEY);
    while (code == DB_LOCK_DEADLOCK);
    free(bulk.data);
    return written(kv, code);
}

/* Moves to the record where a walk from `from` begins. */
static int seek(DBC *cursor, struct kv_slice from, bool back, DBT *k, DBT *v)
{
    if (from.size == 0)
        return back ? DB_NOTFOUND : cursor->get(cursor, k, v, DB_FIRST);
    int code = cursor->get(cursor, k, v, DB_SET_RANGE);
    if (back && code == DB_NOTFOUND) /* all keys are less */
        return cursor->get(cursor, k, v, DB_LAST);
    if (back && code == 0 && !kv_same((struct kv_slice){k->data, k->size}, from))
        return cursor->get(cursor, k, v, DB_PREV);
    return code;
}

/* Visits records until the visitor ends it or there are no more. */
static int walk(struct kv *kv, struct kv_slice from, bool back, kv_visit visit, void *context)
{
    DBC *cursor;
    DBT k = dbt(from), v = dbt((struct kv_slice){NULL, 0});
    if (kv->threads) { /* the engine's own memory is shared by them */
        k.flags = v.flags = DB_DBT_REALLOC;
        k.data = malloc(from.size + 1);
        if (k.data == NULL)
            return kv_fail("out of memory");
        memcpy(k.data, from.data, from.size);
    }
    int code = kv->db->cursor(kv->db, NULL, &cursor, 0);
    if (code != 0) {
        if (kv->threads)
            free(k.data);
        return failed(code);
    }
    code = seek(cursor, from, back, &k, &v);
    while (code == 0 && visit(context, (struct kv_slice){k.data, k.size},
                              (struct kv_slice){v.data == NULL ? "" : v.data, v.size}) == 0)
        code = cursor->get(cursor, &k, &v, back ? DB_PREV : DB_NEXT);
    int closed = cursor->close(cursor);
    if (kv->threads) {
        free(k.data);
        free(v.data);
    }
    if (code == DB_NOTFOUND)
        code = 0;
    return code == 0 && closed == 0 ? KV_OK : failed(code != 0 ? code : closed);
}

static __attribute__((unused)) int scan(struct kv *kv, struct kv_slice from, kv_visit visit,
                                        void *context)
{
    return walk(kv, from, false, visit, context);
}

static __attribute__((unused)) int scan_back(struct kv *kv, struct kv_slice from, kv_visit visit,
                                             void *context)
{
    return walk(kv, from, true, visit, context);
}

static int sync_store(struct kv *kv)
{
    int code = kv->environment == NULL ? kv->db->sync(kv->db, 0)
                                       : kv->environment->log_flush(kv->environment, NULL);
    return code == 0 ? KV_OK : failed(code);
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    u_int32_t gigabytes, bytes, page;
    int parts;
    u_int32_t flags = DB_TXN_WRITE_NOSYNC;
    int code = kv->db->get_pagesize(kv->db, &page);
    if (code == 0 && kv->environment == NULL)
        code = kv->db->get_cachesize(kv->db, &gigabytes, &bytes, &parts);
    if (code == 0 && kv->environment != NULL)
        code = kv->environment->get_cachesize(kv->environment, &gigabytes, &bytes, &parts);
    if (code == 0 && kv->environment != NULL)
        code = kv->environment->get_flags(kv->environment, &flags);
    if (code != 0)
        return failed(code);
    snprintf(text, capacity, "cache_size=%llu\npage_size=%u\nenvironment=%s\nsync=%s\n",
             ((unsigned long long)gigabytes << 30) + bytes, page,
             kv->environment == NULL ? "none" : "transactional",
             flags & DB_TXN_WRITE_NOSYNC ? "off" : "each write");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = CAPABILITIES,
    .name = store_name,
    .max_key = MAX_KEY,
    .max_value = UINT32_MAX / 4, /* lengths are 32 bits, also that of a batch of both */
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
    .scan = (CAPABILITIES & KV_SCAN) ? scan : NULL,
    .scan_back = (CAPABILITIES & KV_SCAN) ? scan_back : NULL,
    .sync = sync_store,
    .effective_options = effective_options,
};
