/* CHANGE: which engine this is, and how it is set where that differs from what it ships with.
 * A store to copy, which works as it is: it keeps its records one after the other, in the order of
 * their keys, in a file that is mapped into memory. CHANGE marks where an engine's own calls go;
 * README.md beside this file says how to go about it. */
#include "../shim.h"

#include <errno.h> /* CHANGE: the engine's header */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 1 << 30 /* bytes of the file, which takes up only what is used of them */ };

/* CHANGE: what an open store needs: the engine's handle, and what is worth preparing once. */
struct kv {
    size_t size;
    char bytes[]; /* each record: the sizes of its key and its value, then both */
};

/* CHANGE: which levels the engine has of the settings in kv.h, what open sets for each, and why it
 * lacks the others ("*"). Claim of durability only what its tests show. */
static const struct kv_setting settings[] = {
    {.name = "durability", .value = "none", .means = "a killed process may leave half a record"},
    {.name = "durability", .value = "*", .lacks = "it writes in place, without a log"},
    {.name = "memory", .value = "*", .lacks = "no cache of its own: it leans on the page cache"},
    {.name = "compression", .value = "none", .means = "the engine has none"},
    {.name = "compression", .value = "*", .lacks = "the engine has none"},
    {.name = NULL},
};

/* CHANGE: the version of the loaded library, by a call if it has one: the number alone. */
static const char *version(void)
{
    return "1";
}

/* CHANGE: turn the engine's error into a status: a missing key into KV_NOT_FOUND, a duplicate into
 * KV_EXISTS, all else into KV_ERROR with the engine's own words, by kv_fail(). */
static int failed(const char *what)
{
    return kv_fail("%s: %s", what, strerror(errno));
}

/* CHANGE: open or create the store in the folder, as the engine ships but for the options given:
 * kv_is() and kv_number() read them. When it fails, free everything and leave *kv alone. */
static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char name[4096];
    (void)options, (void)count;
    snprintf(name, sizeof name, "%s/records", path);
    int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return failed(name);
    void *opened = MAP_FAILED;
    if (ftruncate(file, ROOM) == 0)
        opened = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int status = opened == MAP_FAILED ? failed(name) : KV_OK;
    close(file); /* the mapping stays */
    if (status == KV_OK)
        *kv = opened;
    return status;
}

/* CHANGE: close the engine and free everything, even when closing fails; then say so. */
static int close_store(struct kv *kv)
{
    return munmap(kv, ROOM) == 0 ? KV_OK : failed("munmap");
}

/* CHANGE: write out what is held back, to the disk itself. */
static int sync_store(struct kv *kv)
{
    return msync(kv, ROOM, MS_SYNC) == 0 ? KV_OK : failed("msync");
}

/* The record at a place, and the place of the next one. */
static struct kv_record record_at(const struct kv *kv, size_t place, size_t *next)
{
    size_t sizes[2];
    memcpy(sizes, kv->bytes + place, sizeof sizes);
    const char *key = kv->bytes + place + sizeof sizes;
    *next = place + sizeof sizes + sizes[0] + sizes[1];
    return (struct kv_record){{key, sizes[0]}, {key + sizes[0], sizes[1]}};
}

/* Whether a key is there, at `place` up to `next`; else both are where it would be. */
static bool find(const struct kv *kv, struct kv_slice key, size_t *place, size_t *next)
{
    for (*place = 0; *place < kv->size; *place = *next) {
        struct kv_slice other = record_at(kv, *place, next).key;
        int order = memcmp(other.data, key.data, other.size < key.size ? other.size : key.size);
        if (order == 0 && other.size == key.size)
            return true;
        if (order > 0 || (order == 0 && other.size > key.size))
            break;
    }
    *next = *place;
    return false;
}

/* CHANGE: copy the value into the buffer by kv_copy(); free what the engine allocated. */
static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    size_t place, next;
    bool found = find(kv, key, &place, &next);
    return found ? kv_copy(record_at(kv, place, &next).value, buffer, capacity, size)
                 : KV_NOT_FOUND;
}

/* CHANGE: one call where the engine has one that refuses a key that exists, or is missing; else
 * look first. With KV_PUT, the engine's batch or transaction, and KV_BATCH below. */
static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct kv_slice key = records[i].key, value = records[i].value;
        size_t place, next, sizes[] = {key.size, value.size};
        size_t room = mode == KV_REMOVE ? 0 : sizeof sizes + key.size + value.size;
        bool found = find(kv, key, &place, &next);
        if (found ? mode == KV_INSERT : mode == KV_UPDATE || mode == KV_REMOVE)
            return found ? KV_EXISTS : KV_NOT_FOUND;
        if (room > ROOM - sizeof *kv - kv->size)
            return kv_fail("full: more than %d bytes", ROOM);
        char *here = kv->bytes + place;
        memmove(here + room, kv->bytes + next, kv->size - next);
        kv->size = kv->size - (next - place) + room;
        if (mode != KV_REMOVE)
            memcpy(mempcpy(mempcpy(here, sizes, sizeof sizes), key.data, key.size), value.data,
                   value.size);
    }
    return KV_OK;
}

/* CHANGE: a cursor in the order of the keys' bytes, and KV_SCAN below; without order, no such
 * function. Backward, most engines seek forward and go one back: see leveldb_store.h. */
static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    size_t place, next, end;
    find(kv, from, &place, &end);
    while (direction == KV_FORWARD ? place < kv->size : end > 0) {
        for (size_t at = 0; direction == KV_BACKWARD && at < end;)
            record_at(kv, place = at, &at); /* the last one that begins before the end */
        struct kv_record record = record_at(kv, place, &next);
        if (visit(context, record.key, record.value) != 0)
            return KV_OK;
        end = place;
        place = next;
    }
    return KV_OK;
}

/* CHANGE: the settings that matter, read back from the engine where it can tell. */
static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    snprintf(text, capacity, "sync=off\nbytes=%zu\n", kv->size);
    return KV_OK;
}

/* CHANGE: the engine's limits; what it is capable of. CMake knows the name. */
KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_SCAN,
    .name = KV_NAME,
    .max_key = ROOM / 4,
    .max_value = ROOM / 4,
    .settings = settings,
    .default_durability = "none",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .scan = scan,
    .sync = sync_store,
    .effective_options = effective_options,
};
