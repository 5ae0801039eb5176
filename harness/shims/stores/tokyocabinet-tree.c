/* Tokyo Cabinet's B+ tree, as shipped: what is written stays in the process's cache or map until
 * the store is closed or synced. As shipped it has no mutex: threads must not share it.
 *
 * A transaction for each write would not make it safe: it overwrites the tree's root in place
 * before there is a log, and its end is never synced. */
#include "../shim.h"

#include <tcbdb.h>

struct kv {
    TCBDB *db;
};

static const struct kv_setting settings[] = {
    {"durability", "none", .means = "no transactions, as shipped"},
    {"durability", "process",
     .lacks = "a kill as a transaction begins may leave a file that does not open"},
    {"durability", "recoverable",
     .lacks = "a kill as a transaction begins may leave a file that does not open"},
    {"durability", "*",
     .lacks = "its log's end is not synced: a loss of power undoes the last transaction"},
    {"memory", "*", .lacks = "its cache is counted in leaves of up to 128 records, not in bytes"},
    {"compression", "none", .means = "pages as they are, as shipped"},
    {"compression", "zlib", .means = "BDBTDEFLATE: each page by zlib"},
    {"compression", "bzip2", .means = "BDBTBZIP: each page by bzip2"},
    {"compression", "*", .lacks = "the engine has zlib and bzip2 only"},
    {NULL},
};

static const char *version(void)
{
    return tcversion;
}

static int failed(TCBDB *db)
{
    int code = tcbdbecode(db);
    if (code == TCENOREC)
        return KV_NOT_FOUND;
    if (code == TCEKEEP)
        return KV_EXISTS;
    return kv_fail("%s", tcbdberrmsg(code));
}

static int close_store(struct kv *kv)
{
    int status = tcbdbclose(kv->db) ? KV_OK : failed(kv->db);
    tcbdbdel(kv->db);
    free(kv);
    return status;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096];
    if (snprintf(file, sizeof file, "%s/records.tcb", path) >= (int)sizeof file)
        return kv_fail("path too long");
    struct kv *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->db = tcbdbnew();
    uint8_t compression = 0;
    if (kv_is(options, count, "compression", "zlib"))
        compression = BDBTDEFLATE;
    if (kv_is(options, count, "compression", "bzip2"))
        compression = BDBTBZIP;
    /* The tuning counts when the file is made; 0 and -1 leave the rest as shipped. */
    if ((compression != 0 && !tcbdbtune(opened->db, 0, 0, 0, -1, -1, compression)) ||
        !tcbdbopen(opened->db, file, BDBOWRITER | BDBOCREAT)) {
        int status = kv_fail("%s: %s", file, tcbdberrmsg(tcbdbecode(opened->db)));
        tcbdbdel(opened->db);
        free(opened);
        return status;
    }
    *kv = opened;
    return KV_OK;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    int found;
    const void *value = tcbdbget3(kv->db, key.data, (int)key.size, &found); /* the engine's own */
    if (value == NULL)
        return failed(kv->db);
    return kv_copy((struct kv_slice){value, (size_t)found}, buffer, capacity, size);
}

static int write_one(TCBDB *db, enum kv_mode mode, const struct kv_record *record)
{
    struct kv_slice key = record->key, value = record->value;
    bool done;
    if (mode == KV_REMOVE)
        done = tcbdbout(db, key.data, (int)key.size);
    else if (mode == KV_INSERT)
        done = tcbdbputkeep(db, key.data, (int)key.size, value.data, (int)value.size);
    else
        done = (mode == KV_PUT || tcbdbvsiz(db, key.data, (int)key.size) >= 0) &&
               tcbdbput(db, key.data, (int)key.size, value.data, (int)value.size);
    return done ? KV_OK : failed(db);
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    if (mode != KV_PUT)
        return write_one(kv->db, mode, records);
    if (!tcbdbtranbegin(kv->db))
        return failed(kv->db);
    int status = KV_OK;
    for (size_t i = 0; i < count && status == KV_OK; i++)
        status = write_one(kv->db, mode, &records[i]);
    if (status != KV_OK) {
        tcbdbtranabort(kv->db);
        return status;
    }
    return tcbdbtrancommit(kv->db) ? KV_OK : failed(kv->db);
}

static bool seek(BDBCUR *cursor, struct kv_slice from, bool back)
{
    if (back)
        return tcbdbcurjumpback(cursor, from.data, (int)from.size);
    return from.size == 0 ? tcbdbcurfirst(cursor) : tcbdbcurjump(cursor, from.data, (int)from.size);
}

static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    bool back = direction == KV_BACKWARD, ended = false;
    BDBCUR *cursor = tcbdbcurnew(kv->db);
    TCXSTR *key = tcxstrnew(), *value = tcxstrnew();
    bool valid = seek(cursor, from, back);
    while (valid && !ended && (valid = tcbdbcurrec(cursor, key, value))) {
        ended = visit(context, (struct kv_slice){tcxstrptr(key), (size_t)tcxstrsize(key)},
                      (struct kv_slice){tcxstrptr(value), (size_t)tcxstrsize(value)}) != 0;
        valid = back ? tcbdbcurprev(cursor) : tcbdbcurnext(cursor);
    }
    int status = valid || ended ? KV_OK : failed(kv->db);
    tcxstrdel(value);
    tcxstrdel(key);
    tcbdbcurdel(cursor);
    return status == KV_NOT_FOUND ? KV_OK : status; /* the end */
}

static int backup(struct kv *kv, const char *path)
{
    char file[4096];
    if (snprintf(file, sizeof file, "%s/records.tcb", path) >= (int)sizeof file)
        return kv_fail("path too long");
    return tcbdbcopy(kv->db, file) ? KV_OK : failed(kv->db);
}

static int sync_store(struct kv *kv)
{
    return tcbdbsync(kv->db) ? KV_OK : failed(kv->db);
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    uint8_t options = tcbdbopts(kv->db);
    snprintf(text, capacity,
             "leaf_members=%u\nnode_members=%u\nbuckets=%llu\ncompression=%s\nsync=off\n",
             tcbdblmemb(kv->db), tcbdbnmemb(kv->db), (unsigned long long)tcbdbbnum(kv->db),
             options & BDBTDEFLATE ? "zlib"
             : options & BDBTBZIP  ? "bzip2"
             : options & BDBTTCBS  ? "on"
                                   : "none");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN,
    .name = KV_NAME,
    .max_key = INT32_MAX / 4, /* sizes are int in the API */
    .max_value = INT32_MAX / 4,
    .settings = settings,
    .default_durability = "none",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .scan = scan,
    .backup = backup,
    .sync = sync_store,
    .effective_options = effective_options,
};
