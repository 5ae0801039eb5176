/* The contract between the harness and a store.
 *
 * A store is one shared object that exports one symbol, `kv_driver`. The harness opens it at run
 * time, so a missing engine makes one store unavailable and touches no other.
 *
 * Terms, equal for every store:
 * - A key is 1 to max_key bytes, a value 0 to max_value bytes; any byte is legal in both. What
 *   exceeds the limits, or an empty key, is refused with KV_TOO_LARGE before anything is written.
 * - `get` copies the value into the caller's buffer.
 * - `insert` of a key that exists is KV_EXISTS; `get`, `update` and `remove` of a key that does
 *   not exist are KV_NOT_FOUND. Neither changes the store.
 * - One writer at a time. With KV_THREADS, other threads may read beside it, each in its own
 *   session, and find a value as it was before a write or after it.
 */
#ifndef KV_H
#define KV_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define KV_ABI 1
#define KV_EXPORT __attribute__((visibility("default")))

enum kv_status {
    KV_OK = 0,
    KV_NOT_FOUND = 1,
    KV_EXISTS = 2,
    KV_TOO_LARGE = 3, /* a key or value beyond the limits, or a value beyond the caller's buffer */
    KV_ERROR = 4,     /* anything else; the driver's error() tells what */
};

enum kv_capability {
    KV_BATCH = 1 << 0,   /* write_batch is one call to the engine or one transaction */
    KV_SCAN = 1 << 1,    /* scan visits the records in the order of their keys' bytes */
    KV_THREADS = 1 << 2, /* readers may run beside the writer */
    KV_FORGETS = 1 << 3, /* keeps nothing: the harness's floor, whose answers are not checked */
};

/* `size` bytes at `data`, which is never NULL, not even when size is 0. */
struct kv_slice {
    const void *data;
    size_t size;
};

struct kv_record {
    struct kv_slice key, value;
};

struct kv_option {
    const char *name, *value;
};

/* An open store, or a thread's session on it. Each shim defines it. */
struct kv;

/* Called for each record of a scan; anything but 0 ends the scan. The slices are valid only
 * during the call. */
typedef int (*kv_visit)(void *context, struct kv_slice key, struct kv_slice value);

struct kv_driver {
    uint32_t abi; /* KV_ABI */
    uint32_t capabilities;
    const char *name;
    uint64_t max_key, max_value; /* bytes */

    /* The engine's version as the loaded library states it. */
    const char *(*version)(void);
    /* What the last KV_ERROR on this thread was. */
    const char *(*error)(void);

    /* Opens the store in the existing folder `path`, which is its own, and creates it when the
     * folder is empty. Nothing opens a store twice at a time. An option that the store does not
     * know is a KV_ERROR. */
    int (*open)(const char *path, const struct kv_option *options, size_t count, struct kv **kv);
    /* After it, all that was written is in the folder, though perhaps not yet on the device. */
    int (*close)(struct kv *kv);

    /* A session for one more thread. NULL where all threads may share what open returned. */
    int (*begin)(struct kv *kv, struct kv **session);
    int (*end)(struct kv *session);

    /* Copies at most `capacity` bytes; *size is set to the value's size also when it is
     * KV_TOO_LARGE for the buffer. */
    int (*get)(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size);
    int (*insert)(struct kv *kv, struct kv_slice key, struct kv_slice value);
    int (*update)(struct kv *kv, struct kv_slice key, struct kv_slice value);
    int (*remove)(struct kv *kv, struct kv_slice key);

    /* Stores all records, whether their keys exist or not. No two of them have the same key: which
     * of the two would stay differs among engines. */
    int (*write_batch)(struct kv *kv, const struct kv_record *records, size_t count);
    /* Visits the records from the first key that is not less than `from`. NULL without KV_SCAN. */
    int (*scan)(struct kv *kv, struct kv_slice from, kv_visit visit, void *context);
    /* Returns when all that was written before would survive a loss of power, as far as the
     * engine and the file system promise. */
    int (*sync)(struct kv *kv);
    /* Writes lines of "name=value" and a final NUL into `text`: the settings in force, read back
     * from the engine where it can tell. What does not fit is cut off. */
    int (*effective_options)(struct kv *kv, char *text, size_t capacity);
};

/* For the shims: the text behind error(), and the checks that all of them share. */

static _Thread_local char kv_message[512];

static inline const char *kv_error(void)
{
    return kv_message;
}

__attribute__((format(printf, 1, 2))) static inline int kv_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(kv_message, sizeof kv_message, format, arguments);
    va_end(arguments);
    return KV_ERROR;
}

static inline int kv_check(const struct kv_driver *driver, struct kv_slice key, size_t value_size)
{
    if (key.size == 0 || key.size > driver->max_key || value_size > driver->max_value)
        return KV_TOO_LARGE;
    return KV_OK;
}

static inline int kv_check_batch(const struct kv_driver *driver, const struct kv_record *records,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kv_check(driver, records[i].key, records[i].value.size) != KV_OK)
            return KV_TOO_LARGE;
    return KV_OK;
}

static inline int kv_no_options(const struct kv_option *options, size_t count)
{
    return count == 0 ? KV_OK : kv_fail("unknown option '%s'; allowed: none", options[0].name);
}

#endif
