/* LMDB: one transaction a write and, as shipped, one sync. Its map is set once to a size that no
 * experiment reaches; the file grows only with what is stored. */
#include "../kv.h"

#include <inttypes.h>
#include <lmdb.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAP_SIZE ((size_t)1 << 40) /* bytes of address space */

struct kv {
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *reader; /* renewed for each get, as the engine advises; one a session */
};

extern const struct kv_driver kv_driver;

static const struct kv_setting settings[] = {
    {.name = "durability", .value = "process", .means = "MDB_NOSYNC"},
    {.name = "durability", .value = "sync", .means = "each transaction is synced, as shipped"},
    {.name = "durability", .value = "none", .lacks = "it hands each commit to the operating system"},
    {.name = "durability", .value = "*", .lacks = "its writes are atomic at every level"},
    {.name = "memory", .value = "*", .lacks = "no cache of its own: it maps the page cache"},
    {.name = "compression", .value = "none", .means = "the engine has none"},
    {.name = "compression", .value = "*", .lacks = "the engine has none"},
    {.name = NULL},
};

static const char *version(void)
{
    static char text[32];
    int major, minor, patch;
    mdb_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

static int failed(int code)
{
    if (code == MDB_NOTFOUND)
        return KV_NOT_FOUND;
    if (code == MDB_KEYEXIST)
        return KV_EXISTS;
    return kv_fail("%s", mdb_strerror(code));
}

static int end(struct kv *session)
{
    mdb_txn_abort(session->reader);
    free(session);
    return KV_OK;
}

/* A session is a copy with a reader of its own. */
static int begin(struct kv *kv, struct kv **session)
{
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    *opened = *kv;
    int code = mdb_txn_begin(kv->env, NULL, MDB_RDONLY, &opened->reader);
    if (code != 0) {
        free(opened);
        return failed(code);
    }
    mdb_txn_reset(opened->reader);
    *session = opened;
    return KV_OK;
}

static int open_dbi(struct kv *kv)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(kv->env, NULL, 0, &txn);
    if (code != 0)
        return code;
    code = mdb_dbi_open(txn, NULL, 0, &kv->dbi);
    if (code != 0) {
        mdb_txn_abort(txn);
        return code;
    }
    return mdb_txn_commit(txn);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    struct kv opened = {0};
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    unsigned nosync = kv_is(options, count, "durability", "process") ? MDB_NOSYNC : 0;
    int code = mdb_env_create(&opened.env);
    if (code != 0)
        return failed(code);
    code = mdb_env_set_mapsize(opened.env, MAP_SIZE);
    if (code == 0) /* without thread-local reader slots, so that a thread may hold two sessions */
        code = mdb_env_open(opened.env, path, MDB_NOTLS | nosync, 0666);
    if (code == 0)
        code = open_dbi(&opened);
    int status = code == 0 ? begin(&opened, kv) : failed(code);
    if (status != KV_OK)
        mdb_env_close(opened.env);
    return status;
}

static int close_store(struct kv *kv)
{
    MDB_env *env = kv->env;
    end(kv);
    mdb_env_close(env);
    return KV_OK;
}

static MDB_val val(struct kv_slice slice)
{
    return (MDB_val){.mv_size = slice.size, .mv_data = (void *)(uintptr_t)slice.data};
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    MDB_val k = val(key), v;
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    int code = mdb_txn_renew(kv->reader);
    if (code != 0)
        return failed(code);
    int status = KV_OK;
    code = mdb_get(kv->reader, kv->dbi, &k, &v);
    if (code != 0) {
        status = failed(code);
    } else {
        *size = v.mv_size;
        if (v.mv_size > capacity)
            status = KV_TOO_LARGE;
        else
            memcpy(buffer, v.mv_data, v.mv_size);
    }
    mdb_txn_reset(kv->reader);
    return status;
}

/* Commits when all went well, else leaves the store as it was. */
static int finish(MDB_txn *txn, int code)
{
    if (code == 0)
        code = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    return code == 0 ? KV_OK : failed(code);
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    MDB_val k = val(key), v = val(value);
    MDB_txn *txn;
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    int code = mdb_txn_begin(kv->env, NULL, 0, &txn);
    if (code != 0)
        return failed(code);
    return finish(txn, mdb_put(txn, kv->dbi, &k, &v, MDB_NOOVERWRITE));
}

static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    MDB_val k = val(key), v = val(value), old;
    MDB_txn *txn;
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    int code = mdb_txn_begin(kv->env, NULL, 0, &txn);
    if (code != 0)
        return failed(code);
    code = mdb_get(txn, kv->dbi, &k, &old);
    if (code == 0)
        code = mdb_put(txn, kv->dbi, &k, &v, 0);
    return finish(txn, code);
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    MDB_val k = val(key);
    MDB_txn *txn;
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    int code = mdb_txn_begin(kv->env, NULL, 0, &txn);
    if (code != 0)
        return failed(code);
    return finish(txn, mdb_del(txn, kv->dbi, &k, NULL));
}

static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    MDB_txn *txn;
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    int code = mdb_txn_begin(kv->env, NULL, 0, &txn);
    if (code != 0)
        return failed(code);
    for (size_t i = 0; i < count && code == 0; i++) {
        MDB_val k = val(records[i].key), v = val(records[i].value);
        code = mdb_put(txn, kv->dbi, &k, &v, 0);
    }
    return finish(txn, code);
}

/* Moves to the record where a walk from `from` begins. An empty `from` is no legal key here. */
static int seek(MDB_cursor *cursor, struct kv_slice from, bool back, MDB_val *k, MDB_val *v)
{
    *k = val(from);
    if (from.size == 0)
        return back ? MDB_NOTFOUND : mdb_cursor_get(cursor, k, v, MDB_FIRST);
    int code = mdb_cursor_get(cursor, k, v, MDB_SET_RANGE);
    if (back && code == MDB_NOTFOUND) /* all keys are less */
        return mdb_cursor_get(cursor, k, v, MDB_LAST);
    if (back && code == 0 && !kv_same((struct kv_slice){k->mv_data, k->mv_size}, from))
        return mdb_cursor_get(cursor, k, v, MDB_PREV);
    return code;
}

/* Visits records until the visitor ends it or there are no more. */
static int walk(struct kv *kv, struct kv_slice from, bool back, kv_visit visit, void *context)
{
    MDB_val k, v;
    MDB_cursor *cursor;
    int code = mdb_txn_renew(kv->reader);
    if (code != 0)
        return failed(code);
    code = mdb_cursor_open(kv->reader, kv->dbi, &cursor);
    if (code == 0) {
        code = seek(cursor, from, back, &k, &v);
        while (code == 0 && visit(context, (struct kv_slice){k.mv_data, k.mv_size},
                                  (struct kv_slice){v.mv_data, v.mv_size}) == 0)
            code = mdb_cursor_get(cursor, &k, &v, back ? MDB_PREV : MDB_NEXT);
        mdb_cursor_close(cursor);
    }
    mdb_txn_reset(kv->reader);
    return code == 0 || code == MDB_NOTFOUND ? KV_OK : failed(code);
}

static int scan(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, from, false, visit, context);
}

static int scan_back(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, from, true, visit, context);
}

static int sync_store(struct kv *kv)
{
    int code = mdb_env_sync(kv->env, 1);
    return code == 0 ? KV_OK : failed(code);
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    MDB_envinfo info;
    MDB_stat stat;
    unsigned flags;
    int code = mdb_env_info(kv->env, &info);
    if (code == 0)
        code = mdb_env_stat(kv->env, &stat);
    if (code == 0)
        code = mdb_env_get_flags(kv->env, &flags);
    if (code != 0)
        return failed(code);
    snprintf(text, capacity, "map_size=%zu\npage_size=%u\nsync=%s\nwritemap=%s\n",
             info.me_mapsize, stat.ms_psize,
             flags & MDB_NOSYNC ? "off" : flags & MDB_NOMETASYNC ? "data" : "each transaction",
             flags & MDB_WRITEMAP ? "on" : "off");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS,
    .name = "lmdb",
    .max_key = 511, /* mdb_env_get_maxkeysize as compiled by default */
    .max_value = UINT32_MAX,
    .settings = settings,
    .default_durability = "sync",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .begin = begin,
    .end = end,
    .get = get,
    .insert = insert,
    .update = update,
    .remove = remove_record,
    .write_batch = write_batch,
    .scan = scan,
    .scan_back = scan_back,
    .sync = sync_store,
    .effective_options = effective_options,
};
