/* Tkrzw through its C API, as shipped. What is written stays in the process's cache or map until
 * the store is closed or synced. The file that includes this has defined store_name, file_name,
 * type (a parameter of the engine) and CAPABILITIES. */
#include "../kv.h"

#include <stdlib.h>
#include <string.h>
#include <tkrzw_langc.h>

struct kv {
    TkrzwDBM *dbm;
};

extern const struct kv_driver kv_driver;

static const char *version(void)
{
    return TKRZW_PACKAGE_VERSION;
}

/* The status of the last call on this thread, for calls that concern no single record. */
static int broken(void)
{
    return kv_fail("%s: %s", tkrzw_status_code_name(tkrzw_get_last_status_code()),
                   tkrzw_get_last_status_message());
}

/* The same for those that do. */
static int failed(void)
{
    int32_t code = tkrzw_get_last_status_code();
    if (code == TKRZW_STATUS_NOT_FOUND_ERROR)
        return KV_NOT_FOUND;
    return code == TKRZW_STATUS_DUPLICATION_ERROR ? KV_EXISTS : broken();
}

static int close_store(struct kv *kv)
{
    int status = tkrzw_dbm_close(kv->dbm) ? KV_OK : broken();
    free(kv);
    return status;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096];
    if (kv_no_options(options, count) != KV_OK)
        return KV_ERROR;
    if (snprintf(file, sizeof file, "%s/%s", path, file_name) >= (int)sizeof file)
        return kv_fail("path too long");
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->dbm = tkrzw_dbm_open(file, true, type);
    if (opened->dbm == NULL) {
        free(opened);
        return broken();
    }
    *kv = opened;
    return KV_OK;
}

struct destination {
    void *buffer;
    size_t capacity, *size;
    int status;
};

static const char *copy(void *context, const char *key, int32_t key_size, const char *value,
                        int32_t value_size, int32_t *new_size)
{
    struct destination *to = context;
    (void)key;
    (void)key_size;
    (void)new_size;
    if (value == NULL)
        return TKRZW_REC_PROC_NOOP;
    *to->size = (size_t)value_size;
    to->status = *to->size <= to->capacity ? KV_OK : KV_TOO_LARGE;
    if (to->status == KV_OK)
        memcpy(to->buffer, value, *to->size);
    return TKRZW_REC_PROC_NOOP;
}

/* From where the engine has the value: tkrzw_dbm_get would allocate a copy of it. */
static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    struct destination to = {buffer, capacity, size, KV_NOT_FOUND};
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    bool done = tkrzw_dbm_process(kv->dbm, key.data, (int32_t)key.size, copy, &to, false);
    return done ? to.status : failed();
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    bool done = tkrzw_dbm_set(kv->dbm, key.data, (int32_t)key.size, value.data,
                              (int32_t)value.size, false);
    return done ? KV_OK : failed();
}

/* The engine's one call for this, compare_exchange, would read the whole old value. */
static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    bool done = tkrzw_dbm_check(kv->dbm, key.data, (int32_t)key.size) &&
                tkrzw_dbm_set(kv->dbm, key.data, (int32_t)key.size, value.data,
                              (int32_t)value.size, true);
    return done ? KV_OK : failed();
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    return tkrzw_dbm_remove(kv->dbm, key.data, (int32_t)key.size) ? KV_OK : failed();
}

/* One call, behind which the engine sets one record after the other. */
static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    if (count > INT32_MAX)
        return kv_fail("a batch of %zu records; the engine takes at most 2^31 - 1", count);
    TkrzwKeyValuePair *pairs = calloc(count + 1, sizeof *pairs);
    if (pairs == NULL)
        return kv_fail("out of memory");
    for (size_t i = 0; i < count; i++)
        pairs[i] = (TkrzwKeyValuePair){
            .key_ptr = (char *)(uintptr_t)records[i].key.data,
            .key_size = (int32_t)records[i].key.size,
            .value_ptr = (char *)(uintptr_t)records[i].value.data,
            .value_size = (int32_t)records[i].value.size,
        };
    bool done = tkrzw_dbm_set_multi(kv->dbm, pairs, (int32_t)count, true);
    free(pairs);
    return done ? KV_OK : broken();
}

static __attribute__((unused)) int scan(struct kv *kv, struct kv_slice from, kv_visit visit,
                                        void *context)
{
    TkrzwDBMIter *cursor = tkrzw_dbm_make_iterator(kv->dbm);
    bool valid = tkrzw_dbm_iter_jump(cursor, from.data, (int32_t)from.size);
    bool ended = false;
    while (valid && !ended) {
        char *key, *value;
        int32_t key_size, value_size;
        valid = tkrzw_dbm_iter_step(cursor, &key, &key_size, &value, &value_size);
        if (valid) {
            ended = visit(context, (struct kv_slice){key, (size_t)key_size},
                          (struct kv_slice){value, (size_t)value_size}) != 0;
            free(key);
            free(value);
        }
    }
    int status = valid ? KV_OK : failed();
    tkrzw_dbm_iter_free(cursor);
    return status == KV_NOT_FOUND ? KV_OK : status; /* the end */
}

static int sync_store(struct kv *kv)
{
    return tkrzw_dbm_synchronize(kv->dbm, true, NULL, NULL, "") ? KV_OK : broken();
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    static const char *const wanted[] = {"class",         "update_mode",   "record_comp_mode",
                                         "num_buckets",   "max_page_size", "max_cached_pages",
                                         "offset_width"};
    int32_t count;
    size_t used = 0;
    TkrzwKeyValuePair *pairs = tkrzw_dbm_inspect(kv->dbm, &count);
    text[0] = '\0';
    for (int32_t i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof wanted / sizeof *wanted; j++)
            if (strcmp(pairs[i].key_ptr, wanted[j]) == 0 && used < capacity)
                used += (size_t)snprintf(text + used, capacity - used, "%s=%s\n",
                                         pairs[i].key_ptr, pairs[i].value_ptr);
    tkrzw_free_str_map(pairs, count);
    if (used < capacity)
        snprintf(text + used, capacity - used, "sync=off\n");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = CAPABILITIES,
    .name = store_name,
    .max_key = (8 << 20) - 1,   /* of the hash database, which the tree is built on */
    .max_value = INT32_MAX / 4, /* two of a quarter more in one leaf crash the tree at close */
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
