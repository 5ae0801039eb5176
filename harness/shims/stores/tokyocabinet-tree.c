/* Tokyo Cabinet's B+ tree, as shipped: what is written stays in the process's cache or map until
 * the store is closed or synced. So opened, without its mutex, it must not be shared by threads.
 *
 * A transaction for each write would not make it safe: as one begins, the tree's root is written
 * over in place before there is a log, and its end is never synced. */
#include "../kv.h"

#include <stdlib.h>
#include <string.h>
#include <tcbdb.h>

struct kv {
    TCBDB *db;
};

static const struct kv_setting settings[] = {
    {.name = "durability", .value = "none", .means = "no transactions, as shipped"},
    {.name = "durability",
     .value = "process",
     .lacks = "a kill as a transaction begins may leave a file that does not open"},
    {.name = "durability",
     .value = "*",
     .lacks = "its log's end is not synced: a loss of power undoes the last transaction"},
    {.name = "memory",
     .value = "*",
     .lacks = "its cache is counted in leaves of up to 128 records, not in bytes"},
    {.name = "compression", .value = "none", .means = "pages as they are, as shipped"},
    {.name = "compression", .value = "zlib", .means = "BDBTDEFLATE: each page by zlib"},
    {.name = "compression", .value = "bzip2", .means = "BDBTBZIP: each page by bzip2"},
    {.name = "compression", .value = "*", .lacks = "the engine has zlib and bzip2 only"},
    {.name = NULL},
};

extern const struct kv_driver kv_driver;

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

/* Which counts when the file is made. */
static bool set_compression(TCBDB *db, const char *compression)
{
    if (compression == NULL || strcmp(compression, "none") == 0)
        return true;
    uint8_t option = strcmp(compression, "zlib") == 0 ? BDBTDEFLATE : BDBTBZIP;
    return tcbdbtune(db, 0, 0, 0, -1, -1, option); /* the rest as shipped */
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096];
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    if (snprintf(file, sizeof file, "%s/records.tcb", path) >= (int)sizeof file)
        return kv_fail("path too long");
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->db = tcbdbnew();
    if (!set_compression(opened->db, kv_given(options, count, "compression")) ||
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
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    int found;
    const void *value = tcbdbget3(kv->db, key.data, (int)key.size, &found); /* the engine's own */
    if (value == NULL)
        return failed(kv->db);
    *size = (size_t)found;
    if (*size > capacity)
        return KV_TOO_LARGE;
    memcpy(buffer, value, *size);
    return KV_OK;
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    return tcbdbputkeep(kv->db, key.data, (int)key.size, value.data, (int)value.size)
               ? KV_OK
               : failed(kv->db);
}

static int put(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    return tcbdbput(kv->db, key.data, (int)key.size, value.data, (int)value.size) ? KV_OK
                                                                                  : failed(kv->db);
}

static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    if (tcbdbvsiz(kv->db, key.data, (int)key.size) < 0)
        return failed(kv->db);
    return put(kv, key, value);
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    return tcbdbout(kv->db, key.data, (int)key.size) ? KV_OK : failed(kv->db);
}

/* One transaction. */
static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    if (!tcbdbtranbegin(kv->db))
        return failed(kv->db);
    int status = KV_OK;
    for (size_t i = 0; i < count && status == KV_OK; i++)
        status = put(kv, records[i].key, records[i].value);
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
    return from.size == 0 ? tcbdbcurfirst(cursor)
                          : tcbdbcurjump(cursor, from.data, (int)from.size);
}

/* Visits records until the visitor ends it or there are no more. */
static int walk(struct kv *kv, struct kv_slice from, bool back, kv_visit visit, void *context)
{
    BDBCUR *cursor = tcbdbcurnew(kv->db);
    TCXSTR *key = tcxstrnew(), *value = tcxstrnew();
    bool valid = seek(cursor, from, back);
    bool ended = false;
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
    return tcbdbsync(kv->db) ? KV_OK : failed(kv->db);
}

static const char *compression_of(TCBDB *db)
{
    uint8_t options = tcbdbopts(db);
    if (options & BDBTDEFLATE)
        return "zlib";
    if (options & BDBTBZIP)
        return "bzip2";
    return options & BDBTTCBS ? "on" : "none";
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    snprintf(text, capacity,
             "leaf_members=%u\nnode_members=%u\nbuckets=%llu\ncompression=%s\nsync=off\n",
             tcbdblmemb(kv->db), tcbdbnmemb(kv->db), (unsigned long long)tcbdbbnum(kv->db),
             compression_of(kv->db));
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN,
    .name = "tokyocabinet-tree",
    .max_key = INT32_MAX / 4, /* sizes are int in the API */
    .max_value = INT32_MAX / 4,
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
    .sync = sync_store,
    .effective_options = effective_options,
};
