/* Berkeley DB in one file, without an environment: as shipped, and as the sources ran it. So opened
 * it must not be shared by threads. The file that includes this has defined store_name, type and
 * CAPABILITIES. */
#include "../kv.h"

#include <db.h>
#include <stdlib.h>
#include <string.h>

struct kv {
    DB *db;
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

static int close_store(struct kv *kv)
{
    int code = kv->db->close(kv->db, 0);
    free(kv);
    return code == 0 ? KV_OK : failed(code);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096];
    if (kv_no_options(options, count) != KV_OK)
        return KV_ERROR;
    if (snprintf(file, sizeof file, "%s/records.db", path) >= (int)sizeof file)
        return kv_fail("path too long");
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    int code = db_create(&opened->db, NULL, 0);
    if (code != 0) {
        free(opened);
        return failed(code);
    }
    code = opened->db->open(opened->db, NULL, file, NULL, type, DB_CREATE, 0666);
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

static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    DBT k = dbt(key), v = dbt(value);
    int code = kv->db->exists(kv->db, NULL, &k, 0);
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

/* One bulk put. The buffer holds the bytes from its start and, from its end, four 32-bit words a
 * record and one that closes the list. */
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
    int code = position == NULL
                   ? DB_BUFFER_SMALL
                   : kv->db->put(kv->db, NULL, &bulk, &none, DB_MULTIPLE_KEY);
    free(bulk.data);
    return code == 0 ? KV_OK : failed(code);
}

static __attribute__((unused)) int scan(struct kv *kv, struct kv_slice from, kv_visit visit,
                                        void *context)
{
    DBC *cursor;
    DBT k = dbt(from), v = dbt((struct kv_slice){NULL, 0});
    int code = kv->db->cursor(kv->db, NULL, &cursor, 0);
    if (code != 0)
        return failed(code);
    code = cursor->get(cursor, &k, &v, from.size == 0 ? DB_FIRST : DB_SET_RANGE);
    while (code == 0 && visit(context, (struct kv_slice){k.data, k.size},
                              (struct kv_slice){v.data, v.size}) == 0)
        code = cursor->get(cursor, &k, &v, DB_NEXT);
    int closed = cursor->close(cursor);
    if (code == DB_NOTFOUND)
        code = 0;
    return code == 0 && closed == 0 ? KV_OK : failed(code != 0 ? code : closed);
}

static int sync_store(struct kv *kv)
{
    int code = kv->db->sync(kv->db, 0);
    return code == 0 ? KV_OK : failed(code);
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    u_int32_t gigabytes, bytes, page;
    int parts;
    int code = kv->db->get_cachesize(kv->db, &gigabytes, &bytes, &parts);
    if (code == 0)
        code = kv->db->get_pagesize(kv->db, &page);
    if (code != 0)
        return failed(code);
    snprintf(text, capacity, "cache_size=%llu\npage_size=%u\nenvironment=none\nsync=off\n",
             ((unsigned long long)gigabytes << 30) + bytes, page);
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = CAPABILITIES,
    .name = store_name,
    .max_key = UINT32_MAX / 4, /* lengths are 32 bits, also that of a batch of both */
    .max_value = UINT32_MAX / 4,
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
    .sync = sync_store,
    .effective_options = effective_options,
};
