/* Tkrzw through its C API. As shipped, writes stay in the process's cache or map until the store is
 * closed or synced, and a write that is cut off may lose a record or a whole page of them. At a
 * durability above none nothing is written over and each record has a checksum. The file that
 * includes this header defines file_name, type and durable_parameters (parameters of
 * the engine), CAPABILITIES, PAGE_SIZE, SOFT_AT_PROCESS and settings. */
#include "../shim.h"

#include <ctype.h>
#include <tkrzw_langc.h>

enum synchronize { LEFT, SOFT, HARD }; /* nothing, to the operating system, to the device */

struct kv {
    TkrzwDBM *dbm;
    enum synchronize each_write;
};

static const char *version(void)
{
    return TKRZW_PACKAGE_VERSION;
}

/* Of the last call on this thread, if it concerns no single record. */
static int status(bool done)
{
    return done ? KV_OK
                : kv_fail("%s: %s", tkrzw_status_code_name(tkrzw_get_last_status_code()),
                          tkrzw_get_last_status_message());
}

/* The same, if it concerns one. */
static int record_status(bool done)
{
    int32_t code = done ? TKRZW_STATUS_SUCCESS : tkrzw_get_last_status_code();
    if (code == TKRZW_STATUS_NOT_FOUND_ERROR)
        return KV_NOT_FOUND;
    return code == TKRZW_STATUS_DUPLICATION_ERROR ? KV_EXISTS : status(done);
}

static int close_store(struct kv *kv)
{
    int closed = status(tkrzw_dbm_close(kv->dbm));
    free(kv);
    return closed;
}

/* Writes the engine's parameters for the options. The engine calls a compression as we do, in upper
 * case. */
static void set_parameters(const struct kv_option *options, size_t count, char *text,
                           size_t capacity)
{
    const char *compression = kv_given(options, count, "compression");
    uint64_t pages = kv_number(options, count, "memory") / PAGE_SIZE;
    bool durable = kv_durable(options, count);
    size_t used = (size_t)snprintf(text, capacity, "%s%s", type, durable ? durable_parameters : "");
    if (!durable && kv_is(options, count, "checks", "on"))
        used += (size_t)snprintf(text + used, capacity - used, ",record_crc_mode=RECORD_CRC_32");
    if (pages != 0)
        used += (size_t)snprintf(text + used, capacity - used, ",max_cached_pages=%llu",
                                 (unsigned long long)(pages < INT32_MAX ? pages : INT32_MAX));
    if (compression == NULL)
        return;
    used += (size_t)snprintf(text + used, capacity - used, ",record_comp_mode=RECORD_COMP_");
    for (; *compression != '\0' && used + 1 < capacity; compression++)
        text[used++] = (char)toupper(*compression);
    text[used] = '\0';
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096], parameters[256];
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
        return status(false);
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
    (void)key, (void)key_size, (void)new_size;
    if (value != NULL)
        to->status = kv_copy((struct kv_slice){value, (size_t)value_size}, to->buffer, to->capacity,
                             to->size);
    return TKRZW_REC_PROC_NOOP;
}

/* Copies the value from where the engine has it; tkrzw_dbm_get would allocate a copy first. */
static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    struct destination to = {buffer, capacity, size, KV_NOT_FOUND};
    bool done = tkrzw_dbm_process(kv->dbm, key.data, (int32_t)key.size, copy, &to, false);
    return done ? to.status : record_status(false);
}

static int synchronize(struct kv *kv, bool hard)
{
    return status(tkrzw_dbm_synchronize(kv->dbm, hard, NULL, NULL, ""));
}

static bool write_one(TkrzwDBM *dbm, enum kv_mode mode, struct kv_slice key, struct kv_slice value)
{
    int32_t size = (int32_t)key.size;
    if (mode == KV_REMOVE)
        return tkrzw_dbm_remove(dbm, key.data, size);
    /* The engine's one call for an update, compare_exchange, would read the whole old value. */
    if (mode == KV_UPDATE && !tkrzw_dbm_check(dbm, key.data, size))
        return false;
    return tkrzw_dbm_set(dbm, key.data, size, value.data, (int32_t)value.size, mode == KV_UPDATE);
}

/* A batch is one call, in which the engine sets one record after the other. */
static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    bool done;
    if (mode == KV_PUT) {
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
        done = tkrzw_dbm_set_multi(kv->dbm, pairs, (int32_t)count, true);
        free(pairs);
    } else {
        done = write_one(kv->dbm, mode, records->key, records->value);
    }
    if (!done || kv->each_write == LEFT)
        return record_status(done);
    return synchronize(kv, kv->each_write == HARD);
}

/* Where there is no record to stand on, the engine reports it when asked for the record, not when
 * it moves there. */
static __attribute__((unused)) int scan(struct kv *kv, struct kv_slice from,
                                        enum kv_direction direction, kv_visit visit, void *context)
{
    TkrzwDBMIter *cursor = tkrzw_dbm_make_iterator(kv->dbm);
    bool back = direction == KV_BACKWARD, ended = false;
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
    int scanned = record_status(valid);
    tkrzw_dbm_iter_free(cursor);
    return scanned == KV_NOT_FOUND ? KV_OK : scanned; /* the end */
}

/* Other calls wait until the file is copied. */
static int backup(struct kv *kv, const char *path)
{
    char file[4096];
    if (snprintf(file, sizeof file, "%s/%s", path, file_name) >= (int)sizeof file)
        return kv_fail("path too long");
    return status(tkrzw_dbm_copy_file_data(kv->dbm, file, false /* not synced */));
}

static int sync_store(struct kv *kv)
{
    return synchronize(kv, true);
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    static const char *const wanted[][2] = {
        {"class", "class"},
        {"update_mode", "update_mode"},
        {"record_comp_mode", "record_comp_mode"},
        {"record_comp_mode", "compression"},
        {"num_buckets", "num_buckets"},
        {"max_page_size", "max_page_size"},
        {"max_cached_pages", "max_cached_pages"},
        {"offset_width", "offset_width"},
    };
    int32_t count;
    size_t used = 0;
    TkrzwKeyValuePair *pairs = tkrzw_dbm_inspect(kv->dbm, &count);
    for (int32_t i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof wanted / sizeof *wanted; j++)
            if (strcmp(pairs[i].key_ptr, wanted[j][0]) == 0 && used < capacity)
                used += (size_t)snprintf(text + used, capacity - used, "%s=%s\n", wanted[j][1],
                                         pairs[i].value_ptr);
    tkrzw_free_str_map(pairs, count);
    if (used < capacity)
        snprintf(text + used, capacity - used, "sync=%s\n",
                 kv->each_write == HARD ? "each write" : "off");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = CAPABILITIES,
    .name = KV_NAME,
    .max_key = (8 << 20) - 1,   /* of the hash database, which the tree is built on */
    .max_value = INT32_MAX / 4, /* two of a quarter more in one leaf crash the tree at close */
    .settings = settings,
    .default_durability = "none",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .scan = (CAPABILITIES & KV_SCAN) ? scan : NULL,
    .backup = backup,
    .sync = sync_store,
    .effective_options = effective_options,
};
