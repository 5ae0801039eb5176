/* A store that appends each write to a log and syncs it, and keeps all records in memory. What it
 * does when the system refuses a write or a sync is chosen by ON_WRITE and ON_SYNC. */
#include "shim.h"

#include <fcntl.h>
#include <unistd.h>

enum way { HONEST, IGNORES, LOSES, HANGS, CRASHES, CHANGES, CLOSES, ENDS_READERS };
enum { RECORDS = 6000, KEY = 16, VALUE = 20000, GONE = -1, CURSED = -2 };

struct entry {
    int size; /* of the value; GONE for a removed record, CURSED for one whose reader crashes */
    unsigned char key[KEY], value[VALUE];
};

struct kv {
    int file;
    size_t count;
    off_t end;
    struct entry entries[RECORDS];
};

static const struct kv_setting settings[] = {
    {"durability", "sync", .means = "each write is synced"},
    {"durability", "*", .lacks = "it has one level"},
    {NULL},
};

static const char *version(void)
{
    return "1";
}

static struct entry *find(struct kv *kv, const void *key)
{
    for (size_t i = 0; i < kv->count; i++)
        if (memcmp(kv->entries[i].key, key, KEY) == 0)
            return &kv->entries[i];
    return NULL;
}

static void apply(struct kv *kv, const struct entry *entry)
{
    struct entry *old = find(kv, entry->key);
    if (old == NULL)
        old = &kv->entries[kv->count++];
    memcpy(old, entry, sizeof *entry);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    static struct entry entry;
    char name[4096];
    (void)options, (void)count;
    snprintf(name, sizeof name, "%s/log", path);
    struct kv *opened = calloc(1, sizeof *opened);
    opened->file = open(name, O_RDWR | O_CREAT, 0600);
    if (opened->file < 0) {
        free(opened);
        return kv_fail("the log does not open");
    }
    while (pread(opened->file, &entry, sizeof entry, opened->end) == (ssize_t)sizeof entry) {
        if (entry.size > VALUE)
            return kv_fail("the log is damaged");
        apply(opened, &entry);
        opened->end += (off_t)sizeof entry;
    }
    *kv = opened;
    return KV_OK;
}

static int close_store(struct kv *kv)
{
    close(kv->file);
    free(kv);
    return KV_OK;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    struct entry *found = find(kv, key.data);
    if (found == NULL || found->size == GONE)
        return KV_NOT_FOUND;
    if (found->size == CURSED)
        abort();
    struct kv_slice value = {found->value, (size_t)found->size};
    return kv_copy(value, buffer, capacity, size);
}

/* What happens after a refused call. Returns whether the write counts as done. */
static int refused(struct kv *kv, enum way way, struct entry *entry)
{
    switch (way) {
    case HONEST:
        if (ftruncate(kv->file, kv->end) != 0)
            kv_fail("not cut off"); /* the next write overwrites it */
        return 0;
    case IGNORES:
        return 1;
    case LOSES:
        if (ftruncate(kv->file, 0) != 0)
            kv_fail("not cut off");
        return 0;
    case HANGS:
        for (;;)
            pause();
    case CRASHES:
        abort();
    case CHANGES:
        memset(kv->entries[0].value, 'x', VALUE);
        kv->entries[0].size = 3;
        return 0;
    case CLOSES:
        entry->size = VALUE + 1;
        if (pwrite(kv->file, entry, sizeof *entry, 0) < 0)
            kv_fail("not damaged");
        return 0;
    case ENDS_READERS:
        *entry = kv->entries[1];
        entry->size = CURSED;
        if (pwrite(kv->file, entry, sizeof *entry, (off_t)sizeof *entry) < 0)
            kv_fail("not damaged");
        return 0;
    }
    return 0;
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    static struct entry entry;
    (void)count; /* one: it takes no batches */
    struct entry *old = find(kv, records->key.data);
    int there = old != NULL && old->size != GONE;
    if (mode != KV_PUT && (mode == KV_INSERT) == there)
        return there ? KV_EXISTS : KV_NOT_FOUND;
    memcpy(entry.key, records->key.data, KEY);
    entry.size = mode == KV_REMOVE ? GONE : (int)records->value.size;
    if (mode != KV_REMOVE)
        memcpy(entry.value, records->value.data, records->value.size);
    if (lseek(kv->file, kv->end, SEEK_SET) < 0)
        return kv_fail("no seek");
    if (write(kv->file, &entry, sizeof entry) != (ssize_t)sizeof entry) {
        if (!refused(kv, ON_WRITE, &entry))
            return kv_fail("not written");
    } else {
        if (fsync(kv->file) != 0 && !refused(kv, ON_SYNC, &entry))
            return kv_fail("not synced");
        kv->end += (off_t)sizeof entry;
    }
    apply(kv, &entry);
    return KV_OK;
}

static int sync_store(struct kv *kv)
{
    return fsync(kv->file) == 0 ? KV_OK : kv_fail("not synced");
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    (void)kv;
    snprintf(text, capacity, "%s", "");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .name = KV_NAME,
    .max_key = KEY,
    .max_value = VALUE,
    .settings = settings,
    .default_durability = "sync",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .sync = sync_store,
    .effective_options = effective_options,
};
