/* Tkrzw through its C API. As shipped, what is written stays in the process's cache or map until
 * the store is closed or synced, and a write that is cut off may lose a record or a whole page of
 * them; at a durability above none nothing is written over and each record has a checksum. The
 * file that includes this has defined store_name, file_name, type and durable_parameters
 * (parameters of the engine), CAPABILITIES, PAGE_SIZE, SOFT_AT_PROCESS and settings. */
#include "../kv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <tkrzw_langc.h>

enum synchronize { LEFT, SOFT, HARD }; /* nothing, to the operating system, to the device */

struct kv {
    TkrzwDBM *dbm;
    enum synchronize each_write;
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

/* Writes the engine's parameters that the options stand for. The engine's names of the ways to
 * compress are ours in upper case. */
static void set_parameters(const struct kv_option *options, size_t count, char *text,
                           size_t capacity)
{
    const char *durability = kv_given(options, count, "durability");
    const char *compression = kv_given(options, count, "compression");
    uint64_t pages = kv_number(options, count, "memory") / PAGE_SIZE;
    size_t used = (size_t)snprintf(text, capacity, "%s", type);
    if (durability != NULL && strcmp(durability, "none") != 0)
        used += (size_t)snprintf(text + used, capacity - used, "%s", durable_parameters);
    if (pages != 0)
        used += (size_t)snprintf(text + used, capacity - used, ",max_cached_pages=%llu",
                                 (unsigned long long)(pages < INT32_MAX ? pages : INT32_MAX));
    if (compression != NULL)
        used += (size_t)snprintf(text + used, capacity - used, ",record_comp_mode=RECORD_COMP_");
    for (; compression != NULL && *compression != '\0' && used + 1 < capacity; compression++)
        text[used++] = (char)toupper(*compression);
    text[used] = '\0';
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096], parameters[256];
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    if (snprintf(file, sizeof file, "%s/%s", path, file_name) >= (int)sizeof file)
        return kv_fail("path too long");
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    if (kv_is(options, count, "durability", "sync"))
        opened->each_write = HARD;
    else if (SOFT_AT_PROCESS && kv_is(options, count, "durability", "process"))
        opened->each_write = SOFT;
    set_parameters(options, count, parameters, sizeof parameters);
    opened->dbm = tkrzw_dbm_open(file, true, parameters);
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

static int synchronize(struct kv *kv, bool hard)
{
    return tkrzw_dbm_synchronize(kv->dbm, hard, NULL, NULL, "") ? KV_OK : broken();
}

/* Ends a write that the engine has done or refused. */
static int written(struct kv *kv, bool done)
{
    if (!done)
        return failed();
    return kv->each_write == LEFT ? KV_OK : synchronize(kv, kv->each_write == HARD);
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    bool done = tkrzw_dbm_set(kv->dbm, key.data, (int32_t)key.size, value.data,
                              (int32_t)value.size, false);
    return written(kv, done);
}

/* The engine's one call for this, compare_exchange, would read the whole old value. */
static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    bool done = tkrzw_dbm_check(kv->dbm, key.data, (int32_t)key.size) &&
                tkrzw_dbm_set(kv->dbm, key.data, (int32_t)key.size, value.data,
                              (int32_t)value.size, true);
    return written(kv, done);
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    return written(kv, tkrzw_dbm_remove(kv->dbm, key.data, (int32_t)key.size));
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
    return written(kv, done);
}

/* Visits records until the visitor ends it or there are no more. Where there is none to stand on,
 * the engine says so when it is asked for it, not when it moves there. */
static int walk(struct kv *kv, struct kv_slice from, bool back, kv_visit visit, void *context)
{
    TkrzwDBMIter *cursor = tkrzw_dbm_make_iterator(kv->dbm);
    bool ended = false;
    bool valid = back ? tkrzw_dbm_iter_jump_lower(cursor, from.data, (int32_t)from.size, true)
                      : tkrzw_dbm_iter_jump(cursor, from.data, (int32_t)from.size);
    while (valid && !ended) {
        char *key, *value;
        int32_t key_size, value_size;
        valid = back ? tkrzw_dbm_iter_get(cursor, &key, &key_size, &value, &value_size)
                     : tkrzw_dbm_iter_step(cursor, &key, &key_size, &value, &value_size);
        if (valid) {
            ended = visit(context, (struct kv_slice){key, (size_t)key_size},
                          (struct kv_slice){value, (size_t)value_size}) != 0;
            free(key);
            free(value);
        }
        if (valid && back && !ended)
            valid = tkrzw_dbm_iter_previous(cursor);
    }
    int status = valid ? KV_OK : failed();
    tkrzw_dbm_iter_free(cursor);
    return status == KV_NOT_FOUND ? KV_OK : status; /* the end */
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
    return synchronize(kv, true);
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
    for (int32_t i = 0; i < count; i++) {
        const char *name = pairs[i].key_ptr, *value = pairs[i].value_ptr;
        for (size_t j = 0; j < sizeof wanted / sizeof *wanted; j++)
            if (strcmp(name, wanted[j]) == 0 && used < capacity)
                used += (size_t)snprintf(text + used, capacity - used, "%s=%s\n", name, value);
        if (strcmp(name, "record_comp_mode") == 0 && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "compression=%s\n", value);
    }
    tkrzw_free_str_map(pairs, count);
    if (used < capacity)
        snprintf(text + used, capacity - used, "sync=%s\n",
                 kv->each_write == HARD ? "each write" : "off");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = CAPABILITIES,
    .name = store_name,
    .max_key = (8 << 20) - 1,   /* of the hash database, which the tree is built on */
    .max_value = INT32_MAX / 4, /* two of a quarter more in one leaf crash the tree at close */
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
