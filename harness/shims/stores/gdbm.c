/* GNU dbm, a hash in one file, as shipped: what is written stays in the operating system's cache
 * until the store is closed or synced. It has no order, no transactions and no lock between
 * threads. A kill in mid-write leaves a file that refuses every call until gdbm_recover, which may
 * not find all records again. */
#include "../shim.h"

#include <errno.h>
#include <gdbm.h>

struct kv {
    GDBM_FILE db;
};

static const struct kv_setting settings[] = {
    {"durability", "none", .means = "nothing is synced, as shipped"},
    {"durability", "recoverable", /* the manual's Crash Tolerance */
     .lacks = "gdbm_failure_atomic needs a file system that clones files, and keeps no more than "
              "the last sync had"},
    {"durability", "*",
     .lacks = "a kill in mid-write tears its index: records are lost even after gdbm_recover"},
    {"memory", "*",
     .lacks = "no cache of records: it maps its file, so it leans on the page cache"},
    {"compression", "none", .means = "the engine has none"},
    {"compression", "*", .lacks = "the engine has no compression"},
    {NULL},
};

static const char *version(void)
{
    static _Thread_local char text[40];
    snprintf(text, sizeof text, "%d.%d.%d", gdbm_version_number[0], gdbm_version_number[1],
             gdbm_version_number[2]);
    return text;
}

/* The code is the last one of this thread, and outlives the handle. */
static int failed(void)
{
    int code = gdbm_errno, system_code = errno;
    if (code == GDBM_ITEM_NOT_FOUND)
        return KV_NOT_FOUND;
    if (code == GDBM_CANNOT_REPLACE)
        return KV_EXISTS;
    return gdbm_check_syserr(code) ? kv_fail("%s: %s", gdbm_strerror(code), strerror(system_code))
                                   : kv_fail("%s", gdbm_strerror(code));
}

/* The API has no const, but changes no key or value. */
static datum datum_of(struct kv_slice slice)
{
    return (datum){(char *)slice.data, (int)slice.size};
}

static int close_store(struct kv *kv)
{
    int status = gdbm_close(kv->db) == 0 ? KV_OK : failed();
    free(kv);
    return status;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096];
    (void)options, (void)count; /* there is nothing to choose */
    if (snprintf(file, sizeof file, "%s/records.gdbm", path) >= (int)sizeof file)
        return kv_fail("path too long");
    struct kv *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->db = gdbm_open(file, 0, GDBM_WRCREAT, 0666, NULL);
    if (opened->db == NULL) {
        int status = failed();
        free(opened);
        return status;
    }
    *kv = opened;
    return KV_OK;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    datum value = gdbm_fetch(kv->db, datum_of(key));
    if (value.dptr == NULL) /* an empty value is not NULL */
        return failed();
    int status =
        kv_copy((struct kv_slice){value.dptr, (size_t)value.dsize}, buffer, capacity, size);
    free(value.dptr);
    return status;
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    if (mode == KV_REMOVE)
        return gdbm_delete(kv->db, datum_of(records->key)) == 0 ? KV_OK : failed();
    if (mode == KV_UPDATE && !gdbm_exists(kv->db, datum_of(records->key))) /* sets no error */
        return gdbm_errno == GDBM_NO_ERROR ? KV_NOT_FOUND : failed();
    for (size_t i = 0; i < count; i++)
        if (gdbm_store(kv->db, datum_of(records[i].key), datum_of(records[i].value),
                       mode == KV_INSERT ? GDBM_INSERT : GDBM_REPLACE) != 0)
            return failed();
    return KV_OK;
}

static int sync_store(struct kv *kv)
{
    return gdbm_sync(kv->db) == 0 ? KV_OK : failed();
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    int block_size, mmap, sync;
    size_t cache_size;
    if (gdbm_setopt(kv->db, GDBM_GETBLOCKSIZE, &block_size, sizeof block_size) != 0 ||
        gdbm_setopt(kv->db, GDBM_GETCACHESIZE, &cache_size, sizeof cache_size) != 0 ||
        gdbm_setopt(kv->db, GDBM_GETMMAP, &mmap, sizeof mmap) != 0 ||
        gdbm_setopt(kv->db, GDBM_GETSYNCMODE, &sync, sizeof sync) != 0)
        return failed();
    snprintf(text, capacity, "block_size=%d\ncache_size=%zu\nmmap=%s\nsync=%s\n", block_size,
             cache_size, mmap ? "on" : "off", sync ? "on" : "off");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = 0,
    .name = KV_NAME,
    .max_key = INT32_MAX / 4, /* key, value and the round-up to blocks fit an int together */
    .max_value = INT32_MAX / 4,
    .settings = settings,
    .default_durability = "none",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .sync = sync_store,
    .effective_options = effective_options,
};
