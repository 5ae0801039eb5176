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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KV_ABI 3
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

/* A setting that a store has, or one of its levels that the store lacks and why.
 *
 * These have one meaning for every store; without them it is as shipped:
 *   durability   what a write is safe from when its call returns:
 *                none     nothing: it may wait in the process, and a killed process may lose it
 *                process  the death of the process: the operating system has it; no write is synced
 *                sync     a loss of power too, as far as the engine and the file system promise
 *                atomic   the same, and a crash leaves the old value or the new one, in a store
 *                         where at `sync` an update may be torn
 *   memory       bytes for all caches and buffers of the engine's own
 *   compression  of what is stored: none, snappy, zlib, lz4, zstd, lzo, lzma, bzip2
 * Any other is the engine's own, such as its page size. */
struct kv_setting {
    const char *name;
    const char *value; /* one that is allowed; NULL: any whole number from `least`; "*": any other */
    uint64_t least;
    const char *means; /* what the shim sets for it */
    const char *lacks; /* or why the store has no such value; then `means` is NULL */
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
    const struct kv_setting *settings; /* the last one has no name */
    const char *default_durability;    /* the level that the engine as shipped amounts to */

    /* The engine's version as the loaded library states it. */
    const char *(*version)(void);
    /* What the last KV_ERROR on this thread was. */
    const char *(*error)(void);

    /* Opens the store in the existing folder `path`, which is its own, and creates it when the
     * folder is empty. Nothing opens a store twice at a time. The options are among the
     * settings; any other is a KV_ERROR. Their texts are the caller's, and gone after the call. */
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
    /* The same backwards, from the last key that is not greater than `from`. */
    int (*scan_back)(struct kv *kv, struct kv_slice from, kv_visit visit, void *context);
    /* Merges what the engine keeps in many sorted pieces into as few as it can, and returns when
     * that is done. NULL where the engine has no such call. */
    int (*compact)(struct kv *kv);
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

static inline bool kv_same(struct kv_slice a, struct kv_slice b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
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

/* The value given for a setting; NULL where none is: as shipped. */
static inline const char *kv_given(const struct kv_option *options, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, name) == 0)
            return options[i].value;
    return NULL;
}

static inline bool kv_is(const struct kv_option *options, size_t count, const char *name,
                         const char *value)
{
    const char *given = kv_given(options, count, name);
    return given != NULL && strcmp(given, value) == 0;
}

/* The number given for a setting; 0 where none is. */
static inline uint64_t kv_number(const struct kv_option *options, size_t count, const char *name)
{
    const char *given = kv_given(options, count, name);
    return given == NULL ? 0 : strtoull(given, NULL, 10);
}

static inline bool kv_allows(const struct kv_setting *setting, const char *value)
{
    if (setting->means == NULL)
        return false;
    if (setting->value != NULL)
        return strcmp(setting->value, value) == 0;
    return value[0] != '\0' && value[strspn(value, "0123456789")] == '\0' &&
           strtoull(value, NULL, 10) >= setting->least;
}

/* Refuses an option that is not among the driver's settings, and says what is. */
static inline int kv_check_options(const struct kv_driver *driver, const struct kv_option *options,
                                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char allowed[256] = "";
        bool known = false, fits = false;
        for (const struct kv_setting *s = driver->settings; s->name != NULL; s++) {
            size_t used = strlen(allowed);
            if (strcmp(s->name, options[i].name) != 0)
                continue;
            known = true;
            fits = fits || kv_allows(s, options[i].value);
            if (s->means != NULL && s->value != NULL)
                snprintf(allowed + used, sizeof allowed - used, " %s", s->value);
            else if (s->means != NULL)
                snprintf(allowed + used, sizeof allowed - used, " %llu or more",
                         (unsigned long long)s->least);
        }
        if (!known)
            return kv_fail("unknown option '%s'", options[i].name);
        if (!fits)
            return kv_fail("option %s: '%s' is not allowed; allowed:%s", options[i].name,
                           options[i].value, allowed[0] == '\0' ? " none" : allowed);
    }
    return KV_OK;
}

#endif
