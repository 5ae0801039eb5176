/* libmdbx: each write is one transaction, which as shipped is synced. The map may grow to a size
 * that no experiment reaches; the file grows with what is stored, by steps. At `recoverable` the
 * engine compares the kernel's boot ID with the one in its file: after a reboot it goes back to the
 * last commit that was synced, after a mere crash of the process it keeps all commits. */
#include "../shim.h"

#include <mdbx.h>

#if MDBX_VERSION_MINOR < 13 /* names of older releases */
#define MDBX_NOSTICKYTHREADS MDBX_NOTLS
#define PATCH release
#else
#define PATCH patch
#endif
#define MAP_SIZE ((intptr_t)1 << 40) /* bytes of address space */

struct kv {
    MDBX_env *env;
    MDBX_dbi dbi;
    MDBX_txn *reader; /* one a session, renewed for each get as the engine advises */
};

static const struct kv_setting settings[] = {
    {"durability", "process", .means = "MDBX_UTTERLY_NOSYNC"},
    {"durability", "recoverable", /* mdbx.h, sync_modes */
     .means = "MDBX_SAFE_NOSYNC: no page of the last synced commit is reused; the engine syncs "
              "before its file grows"},
    {"durability", "sync", .means = "MDBX_SYNC_DURABLE: each transaction is synced, as shipped"},
    {"durability", "none", .lacks = "it hands each commit to the operating system"},
    {"durability", "*", .lacks = "its writes are atomic at every level"},
    {"memory", "*", .lacks = "no cache of its own: it maps the page cache"},
    {"compression", "none", .means = "the engine has none"},
    {"compression", "*", .lacks = "the engine has none"},
    {"profile", "recommended",
     .means = "for data larger than memory MDBX_NORDAHEAD: libmdbx's documentation, Opening & "
              "Closing, https://libmdbx.dqdkfa.ru/group__c__opening.html"},
    {"page_size", "4096", .means = "bytes; as shipped the operating system's"},
    {"page_size", "8192", .means = "bytes"},
    {"page_size", "16384", .means = "bytes"},
    {"page_size", "32768", .means = "bytes"},
    {"page_size", "65536", .means = "bytes"},
    {"page_size", "*", .lacks = "the engine has powers of two to 65536; below 4096 keys are short"},
    {NULL},
};

static const char *version(void)
{
    static char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", mdbx_version.major, mdbx_version.minor,
             mdbx_version.PATCH);
    return text;
}

/* The contract's status for a code of the engine. */
static int status_of(int code)
{
    if (code == MDBX_SUCCESS)
        return KV_OK;
    if (code == MDBX_NOTFOUND)
        return KV_NOT_FOUND;
    return code == MDBX_KEYEXIST ? KV_EXISTS : kv_fail("%s", mdbx_strerror(code));
}

static MDBX_val val(struct kv_slice slice)
{
    return (MDBX_val){.iov_len = slice.size, .iov_base = (void *)(uintptr_t)slice.data};
}

static struct kv_slice slice(MDBX_val val)
{
    return (struct kv_slice){val.iov_base, val.iov_len};
}

static int end(struct kv *session)
{
    int code = mdbx_txn_renew(session->reader); /* older releases abort no reader that is reset */
    if (code == MDBX_SUCCESS)
        code = mdbx_txn_abort(session->reader);
    free(session);
    return status_of(code);
}

/* A session is a copy with a reader of its own. */
static int begin(struct kv *kv, struct kv **session)
{
    struct kv *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    *opened = *kv;
    int code = mdbx_txn_begin(kv->env, NULL, MDBX_TXN_RDONLY, &opened->reader);
    if (code == MDBX_SUCCESS && (code = mdbx_txn_reset(opened->reader)) != MDBX_SUCCESS)
        mdbx_txn_abort(opened->reader);
    if (code == MDBX_SUCCESS)
        *session = opened;
    else
        free(opened);
    return status_of(code);
}

/* Commits if all went well, else leaves the store as it was. */
static int finish(MDBX_txn *txn, int code)
{
    if (code == MDBX_SUCCESS)
        return mdbx_txn_commit(txn);
    mdbx_txn_abort(txn);
    return code;
}

static int open_dbi(struct kv *kv)
{
    MDBX_txn *txn;
    int code = mdbx_txn_begin(kv->env, NULL, MDBX_TXN_READWRITE, &txn);
    if (code != MDBX_SUCCESS)
        return code;
    return finish(txn, mdbx_dbi_open(txn, NULL, MDBX_DB_DEFAULTS, &kv->dbi));
}

/* NOSTICKYTHREADS: a thread may hold two sessions. */
static int open_env(MDBX_env *env, const char *path, const struct kv_option *options, size_t count)
{
    intptr_t page = (intptr_t)kv_number(options, count, "page_size");
    unsigned flags = MDBX_NOSTICKYTHREADS;
    if (kv_is(options, count, "durability", "process"))
        flags |= MDBX_UTTERLY_NOSYNC;
    if (kv_is(options, count, "durability", "recoverable"))
        flags |= MDBX_SAFE_NOSYNC;
    if (kv_is(options, count, "profile", "recommended"))
        flags |= MDBX_NORDAHEAD;
    int code = mdbx_env_set_geometry(env, -1, -1, MAP_SIZE, -1, -1, page == 0 ? -1 : page);
    return code != MDBX_SUCCESS ? code : mdbx_env_open(env, path, flags, 0666);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    struct kv opened = {0};
    int code = mdbx_env_create(&opened.env);
    if (code != MDBX_SUCCESS)
        return status_of(code);
    code = open_env(opened.env, path, options, count);
    if (code == MDBX_SUCCESS)
        code = open_dbi(&opened);
    int status = code == MDBX_SUCCESS ? begin(&opened, kv) : status_of(code);
    if (status != KV_OK)
        mdbx_env_close(opened.env);
    return status;
}

static int close_store(struct kv *kv)
{
    MDBX_env *env = kv->env;
    int ended = end(kv);
    int closed = status_of(mdbx_env_close(env));
    return ended == KV_OK ? closed : ended;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    MDBX_val k = val(key), v;
    int code = mdbx_txn_renew(kv->reader);
    if (code != MDBX_SUCCESS)
        return status_of(code);
    code = mdbx_get(kv->reader, kv->dbi, &k, &v);
    int status = code == MDBX_SUCCESS ? kv_copy(slice(v), buffer, capacity, size) : status_of(code);
    code = mdbx_txn_reset(kv->reader);
    return code == MDBX_SUCCESS ? status : status_of(code);
}

static int write_one(MDBX_txn *txn, MDBX_dbi dbi, enum kv_mode mode, const struct kv_record *record)
{
    static const MDBX_put_flags_t flags[] = {
        [KV_PUT] = MDBX_UPSERT, [KV_INSERT] = MDBX_NOOVERWRITE, [KV_UPDATE] = MDBX_CURRENT};
    MDBX_val k = val(record->key);
    if (mode == KV_REMOVE)
        return mdbx_del(txn, dbi, &k, NULL);
    MDBX_val v = val(record->value);
    return mdbx_put(txn, dbi, &k, &v, flags[mode]);
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    MDBX_txn *txn;
    int code = mdbx_txn_begin(kv->env, NULL, MDBX_TXN_READWRITE, &txn);
    if (code != MDBX_SUCCESS)
        return status_of(code);
    for (size_t i = 0; i < count && code == MDBX_SUCCESS; i++)
        code = write_one(txn, kv->dbi, mode, &records[i]);
    return status_of(finish(txn, code));
}

/* Moves to the first record of a scan. */
static int seek(MDBX_cursor *cursor, struct kv_slice from, bool back, MDBX_val *k, MDBX_val *v)
{
    *k = val(from);
    if (from.size == 0)
        return back ? MDBX_NOTFOUND : mdbx_cursor_get(cursor, k, v, MDBX_FIRST);
    int code = mdbx_cursor_get(cursor, k, v, MDBX_SET_RANGE);
    if (back && code == MDBX_NOTFOUND) /* all keys are less */
        return mdbx_cursor_get(cursor, k, v, MDBX_LAST);
    if (back && code == MDBX_SUCCESS && !kv_same(slice(*k), from))
        return mdbx_cursor_get(cursor, k, v, MDBX_PREV);
    return code;
}

static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    bool back = direction == KV_BACKWARD;
    MDBX_val k, v;
    MDBX_cursor *cursor;
    int code = mdbx_txn_renew(kv->reader);
    if (code != MDBX_SUCCESS)
        return status_of(code);
    code = mdbx_cursor_open(kv->reader, kv->dbi, &cursor);
    if (code == MDBX_SUCCESS) {
        code = seek(cursor, from, back, &k, &v);
        while (code == MDBX_SUCCESS && visit(context, slice(k), slice(v)) == 0)
            code = mdbx_cursor_get(cursor, &k, &v, back ? MDBX_PREV : MDBX_NEXT);
        mdbx_cursor_close(cursor);
    }
    int reset = mdbx_txn_reset(kv->reader);
    return code == MDBX_SUCCESS || code == MDBX_NOTFOUND ? status_of(reset) : status_of(code);
}

/* With its free pages, and synced. */
static int backup(struct kv *kv, const char *path)
{
    char file[4096];
    if (snprintf(file, sizeof file, "%s" MDBX_DATANAME, path) >= (int)sizeof file)
        return kv_fail("path too long");
    return status_of(mdbx_env_copy(kv->env, file, MDBX_CP_DEFAULTS));
}

/* The engine answers MDBX_RESULT_TRUE when there is nothing to sync. */
static int sync_store(struct kv *kv)
{
    int code = mdbx_env_sync(kv->env);
    return code == MDBX_RESULT_TRUE ? KV_OK : status_of(code);
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    MDBX_envinfo info;
    unsigned flags;
    int code;
    if ((code = mdbx_env_info_ex(kv->env, NULL, &info, sizeof info)) != MDBX_SUCCESS ||
        (code = mdbx_env_get_flags(kv->env, &flags)) != MDBX_SUCCESS)
        return status_of(code);
    snprintf(text, capacity,
             "map_size=%llu\ngrowth_step=%llu\npage_size=%u\nsync=%s\nwritemap=%s\nreadahead=%s\n",
             (unsigned long long)info.mi_geo.upper, (unsigned long long)info.mi_geo.grow,
             (unsigned)info.mi_dxb_pagesize,
             (flags & MDBX_UTTERLY_NOSYNC) == MDBX_UTTERLY_NOSYNC ? "off"
             : flags & MDBX_SAFE_NOSYNC                           ? "before the file grows"
             : flags & MDBX_NOMETASYNC                            ? "data"
                                                                  : "each transaction",
             flags & MDBX_WRITEMAP ? "on" : "off",
             flags & MDBX_NORDAHEAD ? "off" : "as the engine decides");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS | KV_PROCESSES,
    .name = KV_NAME,
    .max_key = 2022,         /* with pages of 4 KiB */
    .max_value = 0x7ff00000, /* the engine's own limit */
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
