/* LMDB: each write is one transaction, which as shipped is synced. The map has a size that no
 * experiment reaches; the file grows only with what is stored. */
#include "../shim.h"

#include <lmdb.h>

#define MAP_SIZE ((size_t)1 << 40) /* bytes of address space */

struct kv {
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *reader; /* one a session, renewed for each get as the engine advises */
};

static const struct kv_setting settings[] = {
    {"durability", "process", .means = "MDB_NOSYNC"},
    {"durability", "recoverable", /* www.lmdb.tech/doc/group__mdb.html, mdb_env_open */
     .means = "MDB_NOMETASYNC: a commit syncs its pages before it writes the meta page, which it "
              "does not sync"},
    {"durability", "sync", .means = "each transaction is synced, as shipped"},
    {"durability", "none", .lacks = "it hands each commit to the operating system"},
    {"durability", "*", .lacks = "its writes are atomic at every level"},
    {"memory", "*", .lacks = "no cache of its own: it maps the page cache"},
    {"compression", "none", .means = "the engine has none"},
    {"compression", "*", .lacks = "the engine has none"},
    {"profile", "recommended",
     .means = "for data larger than memory MDB_NORDAHEAD: LMDB's documentation, mdb_env_open, "
              "http://www.lmdb.tech/doc/group__mdb.html"},
    {NULL},
};

static const char *version(void)
{
    static char text[80];
    int major, minor, patch;
    mdb_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d" KV_BUILD, major, minor, patch);
    return text;
}

/* The contract's status for a code of the engine. */
static int status_of(int code)
{
    if (code == 0)
        return KV_OK;
    if (code == MDB_NOTFOUND)
        return KV_NOT_FOUND;
    return code == MDB_KEYEXIST ? KV_EXISTS : kv_fail("%s", mdb_strerror(code));
}

static MDB_val val(struct kv_slice slice)
{
    return (MDB_val){.mv_size = slice.size, .mv_data = (void *)(uintptr_t)slice.data};
}

static struct kv_slice slice(MDB_val val)
{
    return (struct kv_slice){val.mv_data, val.mv_size};
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
    struct kv *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    *opened = *kv;
    int code = mdb_txn_begin(kv->env, NULL, MDB_RDONLY, &opened->reader);
    if (code != 0) {
        free(opened);
        return status_of(code);
    }
    mdb_txn_reset(opened->reader);
    *session = opened;
    return KV_OK;
}

/* Commits if all went well, else leaves the store as it was. */
static int finish(MDB_txn *txn, int code)
{
    if (code == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return code;
}

static int open_dbi(struct kv *kv)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(kv->env, NULL, 0, &txn);
    return code != 0 ? code : finish(txn, mdb_dbi_open(txn, NULL, 0, &kv->dbi));
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    struct kv opened = {0};
    unsigned unsynced = 0;
    if (kv_is(options, count, "durability", "process"))
        unsynced = MDB_NOSYNC;
    if (kv_is(options, count, "durability", "recoverable"))
        unsynced = MDB_NOMETASYNC;
    unsigned ahead = kv_is(options, count, "profile", "recommended") ? MDB_NORDAHEAD : 0;
    int code = mdb_env_create(&opened.env);
    if (code != 0)
        return status_of(code);
    code = mdb_env_set_mapsize(opened.env, MAP_SIZE);
    if (code == 0) /* MDB_NOTLS: a thread may hold two sessions */
        code = mdb_env_open(opened.env, path, MDB_NOTLS | unsynced | ahead, 0666);
    if (code == 0)
        code = open_dbi(&opened);
    int status = code == 0 ? begin(&opened, kv) : status_of(code);
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

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    MDB_val k = val(key), v;
    int code = mdb_txn_renew(kv->reader);
    if (code != 0)
        return status_of(code);
    code = mdb_get(kv->reader, kv->dbi, &k, &v);
    int status = code == 0 ? kv_copy(slice(v), buffer, capacity, size) : status_of(code);
    mdb_txn_reset(kv->reader);
    return status;
}

static int write_one(MDB_txn *txn, MDB_dbi dbi, enum kv_mode mode, const struct kv_record *record)
{
    MDB_val k = val(record->key), old;
    if (mode == KV_REMOVE)
        return mdb_del(txn, dbi, &k, NULL);
    MDB_val v = val(record->value);
    int code = mode == KV_UPDATE ? mdb_get(txn, dbi, &k, &old) : 0;
    return code != 0 ? code : mdb_put(txn, dbi, &k, &v, mode == KV_INSERT ? MDB_NOOVERWRITE : 0);
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(kv->env, NULL, 0, &txn);
    if (code != 0)
        return status_of(code);
    for (size_t i = 0; i < count && code == 0; i++)
        code = write_one(txn, kv->dbi, mode, &records[i]);
    return status_of(finish(txn, code));
}

/* Moves to the first record of a scan. The engine refuses to seek an empty key. */
static int seek(MDB_cursor *cursor, struct kv_slice from, bool back, MDB_val *k, MDB_val *v)
{
    *k = val(from);
    if (from.size == 0)
        return back ? MDB_NOTFOUND : mdb_cursor_get(cursor, k, v, MDB_FIRST);
    int code = mdb_cursor_get(cursor, k, v, MDB_SET_RANGE);
    if (back && code == MDB_NOTFOUND) /* all keys are less */
        return mdb_cursor_get(cursor, k, v, MDB_LAST);
    if (back && code == 0 && !kv_same(slice(*k), from))
        return mdb_cursor_get(cursor, k, v, MDB_PREV);
    return code;
}

static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    bool back = direction == KV_BACKWARD;
    MDB_val k, v;
    MDB_cursor *cursor;
    int code = mdb_txn_renew(kv->reader);
    if (code != 0)
        return status_of(code);
    code = mdb_cursor_open(kv->reader, kv->dbi, &cursor);
    if (code == 0) {
        code = seek(cursor, from, back, &k, &v);
        while (code == 0 && visit(context, slice(k), slice(v)) == 0)
            code = mdb_cursor_get(cursor, &k, &v, back ? MDB_PREV : MDB_NEXT);
        mdb_cursor_close(cursor);
    }
    mdb_txn_reset(kv->reader);
    return code == MDB_NOTFOUND ? KV_OK : status_of(code);
}

/* With its free pages; MDB_CP_COMPACT would leave them out. */
static int backup(struct kv *kv, const char *path)
{
    return status_of(mdb_env_copy2(kv->env, path, 0));
}

static int sync_store(struct kv *kv)
{
    return status_of(mdb_env_sync(kv->env, 1));
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    MDB_envinfo info;
    MDB_stat stat;
    unsigned flags;
    int code;
    if ((code = mdb_env_info(kv->env, &info)) != 0 || (code = mdb_env_stat(kv->env, &stat)) != 0 ||
        (code = mdb_env_get_flags(kv->env, &flags)) != 0)
        return status_of(code);
    snprintf(text, capacity, "map_size=%zu\npage_size=%u\nsync=%s\nwritemap=%s\nreadahead=%s\n",
             info.me_mapsize, stat.ms_psize,
             flags & MDB_NOSYNC       ? "off"
             : flags & MDB_NOMETASYNC ? "data"
                                      : "each transaction",
             flags & MDB_WRITEMAP ? "on" : "off", flags & MDB_NORDAHEAD ? "off" : "on");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS | KV_PROCESSES,
    .name = KV_NAME,
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
    .write = write_records,
    .scan = scan,
    .backup = backup,
    .sync = sync_store,
    .effective_options = effective_options,
};
