/* CHANGE: what engine this is, and how it is set where that differs from what it ships with.
 *
 * A store to copy: it works as it is, keeping its records in memory between open and close, and in
 * one file from close to open. CHANGE marks each place where an engine's own calls go; README.md
 * beside this file says how to go about it. */
#include "../kv.h"

/* CHANGE: the engine's header. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CHANGE: what an open store needs: the engine's handle, and what is worth preparing once. */
struct record {
    size_t key_size, value_size;
    unsigned char *key; /* the value follows the key in one allocation */
};

struct kv {
    char file[4096];
    struct record *records; /* in the order of their keys */
    size_t count, capacity;
};

extern const struct kv_driver kv_driver;

/* CHANGE: which levels the engine has of what is measured alike for every store, what open sets for
 * each, and why it lacks the others ("*": any that is not named). kv.h says what they mean; claim of
 * durability only what its tests show. Without an option the engine is as shipped. */
static const struct kv_setting settings[] = {
    {.name = "durability", .value = "none", .means = "nothing is written before close, as shipped"},
    {.name = "durability", .value = "*", .lacks = "nothing is written before close"},
    {.name = "memory", .value = "*", .lacks = "it keeps all records in memory"},
    {.name = "compression", .value = "none", .means = "the engine has none"},
    {.name = "compression", .value = "*", .lacks = "the engine has none"},
    {.name = NULL},
};

/* CHANGE: the version of the library that is loaded, by a call if it has one: the number alone. */
static const char *version(void)
{
    return "1";
}

/* CHANGE: turn the engine's error into a status: a missing key into KV_NOT_FOUND, a double one
 * into KV_EXISTS, all else into KV_ERROR with the engine's own words. kv_fail() formats and keeps
 * them. */
static int failed(const struct kv *kv, const char *what)
{
    return kv_fail("%s: %s", kv->file, what);
}

static struct kv_slice key_of(const struct record *record)
{
    return (struct kv_slice){record->key, record->key_size};
}

static struct kv_slice value_of(const struct record *record)
{
    return (struct kv_slice){record->key + record->key_size, record->value_size};
}

static int compare(struct kv_slice a, struct kv_slice b)
{
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* The place of a key, or where it would be. */
static size_t find(const struct kv *kv, struct kv_slice key, bool *found)
{
    size_t low = 0, high = kv->count;
    *found = false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare(key_of(&kv->records[middle]), key);
        *found = *found || order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Puts a record at its place, instead of the one that is there if `replace`. */
static int put_at(struct kv *kv, size_t place, bool replace, struct kv_slice key,
                  struct kv_slice value)
{
    if (!replace && kv->count == kv->capacity) {
        size_t capacity = 2 * kv->capacity + 16;
        struct record *grown = realloc(kv->records, capacity * sizeof *grown);
        if (grown == NULL)
            return kv_fail("out of memory");
        kv->records = grown;
        kv->capacity = capacity;
    }
    struct record record = {key.size, value.size, malloc(key.size + value.size)};
    if (record.key == NULL)
        return kv_fail("out of memory");
    memcpy(record.key, key.data, key.size);
    memcpy(record.key + key.size, value.data, value.size);
    if (replace) {
        free(kv->records[place].key);
    } else {
        memmove(&kv->records[place + 1], &kv->records[place],
                (kv->count - place) * sizeof *kv->records);
        kv->count++;
    }
    kv->records[place] = record;
    return KV_OK;
}

static void destroy(struct kv *kv)
{
    for (size_t i = 0; i < kv->count; i++)
        free(kv->records[i].key);
    free(kv->records);
    free(kv);
}

/* CHANGE: write out what is held back, to the disk itself (fsync, not only write). */
static int sync_store(struct kv *kv)
{
    FILE *file = fopen(kv->file, "wb");
    if (file == NULL)
        return failed(kv, "can't be written");
    for (size_t i = 0; i < kv->count; i++) {
        struct record *record = &kv->records[i];
        fwrite(record, offsetof(struct record, key), 1, file);
        fwrite(record->key, 1, record->key_size + record->value_size, file);
    }
    bool written = fflush(file) == 0 && fsync(fileno(file)) == 0 && ferror(file) == 0;
    return fclose(file) == 0 && written ? KV_OK : failed(kv, "can't be written");
}

/* Takes the records from the file, if there is one. */
static int load(struct kv *kv)
{
    struct record record;
    int status = KV_OK;
    FILE *file = fopen(kv->file, "rb");
    if (file == NULL)
        return errno == ENOENT ? KV_OK : failed(kv, "can't be read");
    while (status == KV_OK && fread(&record, offsetof(struct record, key), 1, file) == 1) {
        size_t size = record.key_size + record.value_size;
        unsigned char *bytes = malloc(size);
        if (bytes == NULL || fread(bytes, 1, size, file) != size)
            status = failed(kv, "can't be read");
        else
            status = put_at(kv, kv->count, false, (struct kv_slice){bytes, record.key_size},
                            (struct kv_slice){bytes + record.key_size, record.value_size});
        free(bytes);
    }
    if (status == KV_OK && ferror(file))
        status = failed(kv, "can't be read");
    fclose(file);
    return status;
}

/* CHANGE: close the engine and free everything, even when closing fails; then say so. */
static int close_store(struct kv *kv)
{
    int status = sync_store(kv);
    destroy(kv);
    return status;
}

/* CHANGE: open the store inside the folder `path`, and create it when there is none, with the
 * engine's options as shipped. When it fails, free everything and leave *kv alone. kv_is() and
 * kv_number() tell what the options ask for; see sqlite.c. */
static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    int length = snprintf(opened->file, sizeof opened->file, "%s/records", path);
    int status = length < (int)sizeof opened->file ? load(opened) : kv_fail("path too long");
    if (status != KV_OK) {
        destroy(opened);
        return status;
    }
    *kv = opened;
    return KV_OK;
}

/* CHANGE: copy the value into the buffer. *size is the value's size, whether it fits or not; if the
 * engine allocated a copy, free it. */
static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    bool found;
    size_t place = find(kv, key, &found);
    if (!found)
        return KV_NOT_FOUND;
    struct kv_slice value = value_of(&kv->records[place]);
    *size = value.size;
    if (value.size > capacity)
        return KV_TOO_LARGE;
    memcpy(buffer, value.data, value.size);
    return KV_OK;
}

/* CHANGE: one call, if the engine has one that refuses a key that exists; else look first. */
static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    bool found;
    size_t place = find(kv, key, &found);
    return found ? KV_EXISTS : put_at(kv, place, false, key, value);
}

/* CHANGE: one call, if the engine has one that refuses a missing key; else look first, by a look
 * that tells a missing key from a failure. */
static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    bool found;
    size_t place = find(kv, key, &found);
    return found ? put_at(kv, place, true, key, value) : KV_NOT_FOUND;
}

/* CHANGE: as update. */
static int remove_record(struct kv *kv, struct kv_slice key)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    bool found;
    size_t place = find(kv, key, &found);
    if (!found)
        return KV_NOT_FOUND;
    free(kv->records[place].key);
    kv->count--;
    memmove(&kv->records[place], &kv->records[place + 1],
            (kv->count - place) * sizeof *kv->records);
    return KV_OK;
}

/* CHANGE: the engine's batch or transaction, and KV_BATCH below; without one, a loop as here. */
static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    int status = KV_OK;
    for (size_t i = 0; i < count && status == KV_OK; i++) {
        bool found;
        size_t place = find(kv, records[i].key, &found);
        status = put_at(kv, place, found, records[i].key, records[i].value);
    }
    return status;
}

/* CHANGE: a cursor in the order of the keys' bytes, and KV_SCAN below; an engine without order has
 * no such function. An empty `from` means the first record. */
static int scan(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    bool found;
    for (size_t place = find(kv, from, &found); place < kv->count; place++)
        if (visit(context, key_of(&kv->records[place]), value_of(&kv->records[place])) != 0)
            break;
    return KV_OK;
}

/* CHANGE: the same backwards, from the last key that is not greater than `from`; an empty `from`
 * visits nothing. An engine that can only seek forwards goes to the first key that is not less, and
 * then one back unless that is `from` itself; where there is none such, to its last: see lmdb.c,
 * where one function serves both directions. */
static int scan_back(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    bool found;
    for (size_t place = find(kv, from, &found) + found; place > 0; place--) {
        const struct record *record = &kv->records[place - 1];
        if (visit(context, key_of(record), value_of(record)) != 0)
            break;
    }
    return KV_OK;
}

/* CHANGE: an engine that keeps sorted pieces and has a call that merges them (an LSM tree) gets a
 * function `compact` here and its line below; see rocksdb.c. Others have none. */

/* CHANGE: the settings that matter, read back from the engine where it can tell. It is called once,
 * after the last operation. */
static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    (void)kv;
    snprintf(text, capacity, "sync=off\n");
    return KV_OK;
}

/* CHANGE: the name, which is this file's without .c; the largest key and value, in bytes, with room
 * for what the engine adds where its sizes are int; and the capabilities that it keeps, see kv.h,
 * or 0; the durability that the engine as shipped amounts to. With KV_THREADS, .begin and .end open and close a thread's own session if the engine wants
 * one. */
KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_SCAN,
    .name = "template",
    .max_key = UINT32_MAX,
    .max_value = UINT32_MAX,
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
