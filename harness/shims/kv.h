/* The contract between the harness and a store.
 *
 * A store is one shared object that exports one symbol, `kv_driver`. The harness loads it at run
 * time, so a missing engine makes only its own store unavailable.
 *
 * Terms, equal for every store:
 * - A key is 1 to max_key bytes, a value 0 to max_value bytes; any byte is legal in both. The
 *   harness checks these limits, and options against `settings`, before it calls the store.
 * - `get` copies the value into the caller's buffer.
 * - A duplicate key returns KV_EXISTS, a missing key KV_NOT_FOUND. Neither changes the store.
 * - Only one thread at a time calls the store. With KV_THREADS, other threads may read while one
 *   writes, each in its own session. They see a value as it was before or after a write. With
 *   KV_WRITERS, several threads may write, each in its own session, and never the same key at once.
 */
#ifndef KV_H
#define KV_H

#include <stddef.h>
#include <stdint.h>

#define KV_ABI 5
#define KV_EXPORT __attribute__((visibility("default")))

enum kv_status {
    KV_OK = 0,
    KV_NOT_FOUND = 1,
    KV_EXISTS = 2,
    KV_TOO_LARGE = 3, /* a key or value beyond the limits, or a value beyond the caller's buffer */
    KV_ERROR = 4,     /* anything else; the driver's error() says what */
};

enum kv_capability {
    KV_BATCH = 1 << 0,   /* a write of many records is one call to the engine or one transaction */
    KV_SCAN = 1 << 1,    /* scan visits the records in the order of their keys' bytes */
    KV_THREADS = 1 << 2, /* readers may run concurrently with the writer */
    KV_FORGETS = 1 << 3, /* keeps nothing: the null store, whose answers are not checked */
    KV_WRITERS = 1 << 4, /* several threads may write, even if the engine serialises them */
    KV_PROCESSES = 1 << 5, /* several processes may have the store open, and read and write it */
};

/* What a write requires of the key. */
enum kv_mode {
    KV_PUT,    /* nothing: the record is stored whether its key exists or not */
    KV_INSERT, /* that it does not exist, else KV_EXISTS */
    KV_UPDATE, /* that it exists, else KV_NOT_FOUND */
    KV_REMOVE, /* that it exists, else KV_NOT_FOUND; `value` is not read */
};

enum kv_direction { KV_FORWARD, KV_BACKWARD };

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

/* A level of a setting that a store supports, or lacks with a reason.
 *
 * These settings have one meaning for every store; without them the store is as shipped:
 *   durability   what a write survives once its call has returned:
 *                none     nothing: it may be buffered in the process, and lost when that is killed
 *                process  a crash of the process: the operating system has it; no write is synced
 *                recoverable
 *                         the same; and acknowledged writes of the last moments may be lost when
 *                         power fails, but the store opens, every record holds a value that was
 *                         written to it, and no record that was on disk before is lost
 *                sync     a power failure, too, as far as the engine and the file system guarantee it
 *                atomic   the same, and a crash leaves the old value or the new one. A shim
 *                         lists this level, as supported or lacking, only if its updates
 *                         may be torn at `sync`
 *   memory       bytes for all caches and buffers of the engine
 *   compression  of what is stored: none, snappy, zlib, lz4, zstd, lzo, lzma, bzip2
 *   checks       for damage of its files: on or off, where that differs from what ships
 * Any other setting is the engine's own, such as its page size. */
struct kv_setting {
    const char *name;
    const char *value; /* an allowed value; NULL: any whole number from `least`; "*": any other */
    uint64_t least;
    const char *means; /* what the shim sets for this value */
    const char *lacks; /* or why the store lacks this value; then `means` is NULL */
};

/* An open store, or a thread's session on it. Each shim defines it. */
struct kv;

/* Called for each record of a scan; anything but 0 ends the scan. The slices are valid only
 * during the call. */
typedef int (*kv_visit)(void *context, struct kv_slice key, struct kv_slice value);

/* The harness copies it, with all that it points to, when it loads the shim. */
struct kv_driver {
    uint32_t abi; /* KV_ABI */
    uint32_t capabilities;
    const char *name;
    uint64_t max_key, max_value;       /* bytes */
    const struct kv_setting *settings; /* the last one has no name */
    const char *default_durability;    /* the level that the engine provides as shipped */

    /* The engine's version as the loaded library states it. */
    const char *(*version)(void);
    /* The message of the last KV_ERROR on this thread. */
    const char *(*error)(void);

    /* Opens the store in the existing folder `path`, which holds nothing else, and creates it if
     * the folder is empty. A process never opens a store twice at a time. The texts of the options are
     * valid only during the call. */
    int (*open)(const char *path, const struct kv_option *options, size_t count, struct kv **kv);
    /* After it, all writes are in the files of the folder, though perhaps not yet on the device. */
    int (*close)(struct kv *kv);

    /* A session for one more thread. NULL if all threads may share what open returned. */
    int (*begin)(struct kv *kv, struct kv **session);
    int (*end)(struct kv *session);

    /* Copies at most `capacity` bytes; *size is set to the size of the value, even if it is
     * KV_TOO_LARGE for the buffer. */
    int (*get)(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size);
    /* Writes `count` records with distinct keys: any number with KV_PUT, one with other modes. */
    int (*write)(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t count);
    /* Visits the records in the order of their keys, forward from the first key not less than
     * `from` or backward from the last key not greater. NULL without KV_SCAN. */
    int (*scan)(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context);
    /* Merges sorted runs into as few as the engine can, and returns when that is done. NULL if
     * the engine has no such call. */
    int (*compact)(struct kv *kv);
    /* Copies the store, as it is at one moment during the call, into the existing empty folder
     * `path`, in which `open` then opens the copy. With KV_THREADS, one other thread may write
     * meanwhile, each in its own session. The copy need not be on the device yet. NULL if the engine
     * documents no copy of an open store. */
    int (*backup)(struct kv *kv, const char *path);
    /* Returns when all earlier writes would survive a power failure, as far as the engine and
     * the file system guarantee it. */
    int (*sync)(struct kv *kv);
    /* Writes lines of "name=value" and a final NUL into `text`: the settings in force, read back
     * from the engine where it reports them. Text that does not fit is cut off. */
    int (*effective_options)(struct kv *kv, char *text, size_t capacity);
};

#endif
