/* One file a record: what the stores `flat` and `nested` share. The file's name is its key in
 * hexadecimal, so that no key can leave the folder or differ from another only in case; a link in
 * its place is refused. Nested stores put it below two folders, named by the key's first two pairs
 * of digits; links in the place of those are followed. The file that includes this has defined
 * store_name and NESTED. */
#ifndef FOLDER_H
#define FOLDER_H

#include "../shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    FOLDER_MAX_KEY = 127,    /* a name has at most 255 bytes */
    FOLDER_PATH = 6 + 255 + 1 /* "aa/bb/", the name, perhaps a "~", NUL */
};
#define FOLDER_MAX_VALUE (UINT64_C(1) << 32) /* far below any file system's limit */

struct kv {
    int folder; /* descriptor of the store's folder */
    int nested;
    bool sync, atomic; /* each write; atomic writes are synced too */
};

static const struct kv_setting folder_settings[] = {
    {.name = "durability", .value = "process", .means = "nothing is synced, as shipped"},
    {.name = "durability",
     .value = "sync",
     .means = "fsync of the file, and of its folder when a name came or went; syncfs for a batch"},
    {.name = "durability",
     .value = "atomic",
     .means = "as sync, and each value is written to a temporary file that is then renamed"},
    {.name = "durability", .value = "*", .lacks = "a file's bytes go to the operating system at once"},
    {.name = "memory", .value = "*", .lacks = "no cache of its own: it leans on the page cache"},
    {.name = "compression", .value = "none", .means = "files are kept as they are"},
    {.name = "compression", .value = "*", .lacks = "files are kept as they are"},
    {.name = NULL},
};

/* The engine of a folder is the kernel's file system. */
static const char *folder_version(void)
{
    static struct utsname system;
    return uname(&system) == 0 ? system.release : "unknown";
}

static int folder_fail(const char *what)
{
    return kv_fail("%s: %s", what, strerror(errno));
}

static int folder_open(const char *path, const struct kv_option *options, size_t count,
                       struct kv **kv)
{
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->nested = NESTED;
    opened->atomic = kv_is(options, count, "durability", "atomic");
    opened->sync = opened->atomic || kv_is(options, count, "durability", "sync");
    opened->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened->folder < 0) {
        free(opened);
        return folder_fail("open folder");
    }
    *kv = opened;
    return KV_OK;
}

static int folder_close(struct kv *kv)
{
    int status = close(kv->folder);
    free(kv);
    return status == 0 ? KV_OK : folder_fail("close folder");
}

static void folder_path(const struct kv *kv, struct kv_slice key, char path[FOLDER_PATH])
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = key.data;
    char *name = path + (kv->nested ? 6 : 0);
    for (size_t i = 0; i < key.size; i++) {
        name[2 * i] = digits[bytes[i] >> 4];
        name[2 * i + 1] = digits[bytes[i] & 15];
    }
    name[2 * key.size] = '\0';
    if (kv->nested) {
        memcpy(path, name, 2);
        path[2] = '/';
        memcpy(path + 3, key.size > 1 ? name + 2 : "__", 2);
        path[5] = '/';
    }
}

/* Makes the names in a folder durable; `path` is that of a record in it. */
static int folder_sync_names(const struct kv *kv, const char *path, size_t parent_length)
{
    char parent[6] = ".";
    if (kv->nested && parent_length > 0) {
        memcpy(parent, path, parent_length);
        parent[parent_length] = '\0';
    }
    int folder = openat(kv->folder, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return folder_fail("open folder");
    int status = fsync(folder) == 0 ? KV_OK : folder_fail("fsync folder");
    close(folder);
    return status;
}

/* Makes the two folders above a nested record. */
static int folder_make_parents(const struct kv *kv, const char *path)
{
    char parent[6];
    memcpy(parent, path, 5);
    parent[5] = '\0';
    parent[2] = '\0';
    if (mkdirat(kv->folder, parent, 0777) != 0 && errno != EEXIST)
        return folder_fail("make folder");
    parent[2] = '/';
    if (mkdirat(kv->folder, parent, 0777) != 0 && errno != EEXIST)
        return folder_fail("make folder");
    if (!kv->sync)
        return KV_OK;
    return folder_sync_names(kv, path, 0) == KV_OK ? folder_sync_names(kv, path, 2) : KV_ERROR;
}

/* Opens for writing, with the folders above made where they are missing; -1 and errno otherwise. */
static int folder_create(const struct kv *kv, const char *path, int flags)
{
    int file = openat(kv->folder, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
    if (file < 0 && errno == ENOENT && kv->nested && folder_make_parents(kv, path) == KV_OK)
        file = openat(kv->folder, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
    return file;
}

/* Writes the value, syncs it if asked to, and closes the file. */
static int folder_write(int file, struct kv_slice value, bool sync)
{
    const char *data = value.data;
    size_t left = value.size;
    while (left > 0) {
        ssize_t written = write(file, data, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            folder_fail("write");
            close(file);
            return KV_ERROR;
        }
        data += written;
        left -= (size_t)written;
    }
    if (sync && fsync(file) != 0) {
        folder_fail("fsync");
        close(file);
        return KV_ERROR;
    }
    return close(file) == 0 ? KV_OK : folder_fail("close");
}

/* The name of the temporary file beside a record: no key's, and no longer than a name may be. */
static void folder_temporary(const char *path, char temporary[FOLDER_PATH])
{
    size_t length = strlen(path);
    memcpy(temporary, path, length);
    memcpy(temporary + length, "~", 2);
}

/* Writes beside the record, then gives the file its name. */
static int folder_write_atomic(struct kv *kv, const char *path, struct kv_slice value,
                               unsigned rename_flags)
{
    char temporary[FOLDER_PATH];
    folder_temporary(path, temporary);
    int file = folder_create(kv, temporary, O_TRUNC);
    if (file < 0)
        return folder_fail("create");
    int status = folder_write(file, value, true);
    if (status == KV_OK &&
        renameat2(kv->folder, temporary, kv->folder, path, rename_flags) != 0)
        status = errno == EEXIST ? KV_EXISTS : folder_fail("rename");
    if (status != KV_OK) {
        unlinkat(kv->folder, temporary, 0);
        return status;
    }
    return folder_sync_names(kv, path, 5);
}

static int folder_get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity,
                      size_t *size)
{
    char path[FOLDER_PATH];
    struct stat status;
    folder_path(kv, key, path);
    int file = openat(kv->folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return errno == ENOENT ? KV_NOT_FOUND : folder_fail("open");
    int result = KV_OK;
    if (fstat(file, &status) != 0)
        result = folder_fail("fstat");
    else if ((*size = (size_t)status.st_size) > capacity)
        result = KV_TOO_LARGE;
    for (size_t done = 0; result == KV_OK && done < *size;) {
        ssize_t count = read(file, (char *)buffer + done, *size - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            result = count == 0 ? kv_fail("read: file ends early") : folder_fail("read");
        else
            done += (size_t)count;
    }
    if (close(file) != 0 && result == KV_OK)
        result = folder_fail("close");
    return result;
}

static int folder_insert(struct kv *kv, const char *path, struct kv_slice value)
{
    if (kv->atomic)
        return folder_write_atomic(kv, path, value, RENAME_NOREPLACE);
    int file = folder_create(kv, path, O_EXCL);
    if (file < 0)
        return errno == EEXIST ? KV_EXISTS : folder_fail("create");
    int result = folder_write(file, value, kv->sync);
    if (result != KV_OK)
        unlinkat(kv->folder, path, 0); /* no half record */
    return result == KV_OK && kv->sync ? folder_sync_names(kv, path, 5) : result;
}

/* As a program does by default: truncate, then write. The folder stays as it is. */
static int folder_update(struct kv *kv, const char *path, struct kv_slice value)
{
    if (kv->atomic && faccessat(kv->folder, path, F_OK, 0) == 0)
        return folder_write_atomic(kv, path, value, 0);
    int file = openat(kv->folder, path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return errno == ENOENT ? KV_NOT_FOUND : folder_fail("open");
    return folder_write(file, value, kv->sync);
}

/* Leaves the folders above a nested record in place. */
static int folder_remove(struct kv *kv, const char *path)
{
    if (unlinkat(kv->folder, path, 0) != 0)
        return errno == ENOENT ? KV_NOT_FOUND : folder_fail("unlink");
    return kv->sync ? folder_sync_names(kv, path, 5) : KV_OK;
}

static int folder_sync(struct kv *kv)
{
    return syncfs(kv->folder) == 0 ? KV_OK : folder_fail("syncfs");
}

/* Gives the temporary files of a batch, all of them synced, their names. */
static int folder_rename_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    char path[FOLDER_PATH], temporary[FOLDER_PATH];
    for (size_t i = 0; i < count; i++) {
        folder_path(kv, records[i].key, path);
        folder_temporary(path, temporary);
        if (renameat(kv->folder, temporary, kv->folder, path) != 0)
            return folder_fail("rename");
    }
    return KV_OK;
}

static int folder_put(struct kv *kv, const struct kv_record *records, size_t count)
{
    char path[FOLDER_PATH], temporary[FOLDER_PATH];
    for (size_t i = 0; i < count; i++) {
        folder_path(kv, records[i].key, path);
        folder_temporary(path, temporary);
        int file = folder_create(kv, kv->atomic ? temporary : path, O_TRUNC);
        if (file < 0)
            return folder_fail("create");
        if (folder_write(file, records[i].value, false) != KV_OK)
            return KV_ERROR;
    }
    int status = kv->sync ? folder_sync(kv) : KV_OK;
    if (status != KV_OK || !kv->atomic)
        return status;
    status = folder_rename_batch(kv, records, count);
    return status == KV_OK ? folder_sync(kv) : status;
}

static int folder_write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                                size_t count)
{
    char path[FOLDER_PATH];
    if (mode == KV_PUT)
        return folder_put(kv, records, count);
    folder_path(kv, records->key, path);
    if (mode == KV_INSERT)
        return folder_insert(kv, path, records->value);
    return mode == KV_UPDATE ? folder_update(kv, path, records->value) : folder_remove(kv, path);
}

static int folder_effective_options(struct kv *kv, char *text, size_t capacity)
{
    snprintf(text, capacity, "levels=%d\nupdate=%s\nsync=%s\n", kv->nested ? 2 : 0,
             kv->atomic ? "write and rename" : "truncate and write",
             kv->sync ? "file and folder" : "none");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = 0, /* no KV_THREADS: a reader may find a file truncated, not yet written */
    .name = store_name,
    .max_key = FOLDER_MAX_KEY,
    .max_value = FOLDER_MAX_VALUE,
    .settings = folder_settings,
    .default_durability = "process",
    .version = folder_version,
    .error = kv_error,
    .open = folder_open,
    .close = folder_close,
    .get = folder_get,
    .write = folder_write_records,
    .sync = folder_sync,
    .effective_options = folder_effective_options,
};

#endif
