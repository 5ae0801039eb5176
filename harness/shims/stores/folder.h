/* One file a record: what the stores `flat` and `nested` share. The file's name is its key in
 * hexadecimal, so that no key can leave the folder or differ from another only in case; a link in
 * its place is refused. Nested stores put it below two folders, named by the key's first two bytes;
 * links in the place of those are followed. Who includes this has defined NESTED. */
#include "../shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    FOLDER_MAX_KEY = 127,     /* a name has at most 255 bytes */
    FOLDER_PATH = 6 + 255 + 1 /* "aa/bb/", the name, perhaps a "~", NUL */
};

struct kv {
    int folder; /* descriptor of the store's folder */
    int nested;
    bool sync;   /* each write */
    bool rename; /* each value is written beside the record and then gets its name */
};

/* Where a file's pages have arrived when it is closed: in the page cache, in the device's cache, or
 * safe from a loss of power. */
enum reach { CACHED, WRITTEN, SYNCED };

static const struct kv_setting settings[] = {
    {.name = "durability", .value = "process", .means = "nothing is synced, as shipped"},
    {.name = "durability",
     .value = "recoverable",
     .means = "each value is written to a temporary file, which is renamed once the device has its "
              "pages (sync_file_range: no cache is flushed); the file system's journal orders the "
              "names"},
    {.name = "durability",
     .value = "sync",
     .means = "fsync of the file, and of its folder when a name came or went; syncfs for a batch"},
    {.name = "durability",
     .value = "atomic",
     .means = "as sync, and each value is written to a temporary file that is then renamed"},
    {.name = "durability", .value = "*", .lacks = "the operating system has its bytes at once"},
    {.name = "memory", .value = "*", .lacks = "no cache of its own: it leans on the page cache"},
    {.name = "compression", .value = "none", .means = "files are kept as they are"},
    {.name = "compression", .value = "*", .lacks = "files are kept as they are"},
    {.name = NULL},
};

/* The engine of a folder is the kernel's file system. */
static const char *version(void)
{
    static struct utsname system;
    return uname(&system) == 0 ? system.release : "unknown";
}

static int failed(const char *what)
{
    return kv_fail("%s: %s", what, strerror(errno));
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->nested = NESTED;
    bool atomic = kv_is(options, count, "durability", "atomic");
    opened->rename = atomic || kv_is(options, count, "durability", "recoverable");
    opened->sync = atomic || kv_is(options, count, "durability", "sync");
    opened->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened->folder < 0) {
        free(opened);
        return failed("open folder");
    }
    *kv = opened;
    return KV_OK;
}

static int close_store(struct kv *kv)
{
    int status = close(kv->folder);
    free(kv);
    return status == 0 ? KV_OK : failed("close folder");
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
static int sync_names(const struct kv *kv, const char *path, int parent_length)
{
    char parent[6] = ".";
    if (kv->nested && parent_length > 0)
        snprintf(parent, sizeof parent, "%.*s", parent_length, path);
    int folder = openat(kv->folder, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return failed("open folder");
    int status = fsync(folder) == 0 ? KV_OK : failed("fsync folder");
    close(folder);
    return status;
}

static int make_parents(const struct kv *kv, const char *path)
{
    for (int length = 2; length <= 5; length += 3) {
        char parent[6];
        snprintf(parent, sizeof parent, "%.*s", length, path);
        if (mkdirat(kv->folder, parent, 0777) != 0 && errno != EEXIST)
            return failed("make folder");
    }
    if (!kv->sync)
        return KV_OK;
    return sync_names(kv, path, 0) == KV_OK ? sync_names(kv, path, 2) : KV_ERROR;
}

/* Opens for writing, with the folders above made where they are missing; -1 and errno otherwise. */
static int create_file(const struct kv *kv, const char *path, int flags)
{
    flags |= O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    int file = openat(kv->folder, path, flags, 0666);
    if (file < 0 && errno == ENOENT && kv->nested && make_parents(kv, path) == KV_OK)
        file = openat(kv->folder, path, flags, 0666);
    return file;
}

static enum reach reach_of(const struct kv *kv)
{
    return kv->sync ? SYNCED : kv->rename ? WRITTEN : CACHED;
}

/* Brings the pages of a file as far as `reach` says. Once they are WRITTEN, ext4's journal has the
 * file's size and blocks ahead of the rename that follows. Otherwise a new name may survive a loss
 * of power without its bytes: ext4's auto_da_alloc helps only a file that replaces another
 * (https://docs.kernel.org/admin-guide/ext4.html). */
static int push(int file, enum reach reach)
{
    if (reach == SYNCED && fsync(file) != 0)
        return failed("fsync");
    if (reach == WRITTEN &&
        sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0)
        return failed("sync_file_range");
    return KV_OK;
}

/* Writes the value, as far as asked to, and closes the file. */
static int write_file(int file, struct kv_slice value, enum reach reach)
{
    const char *data = value.data, *end = data + value.size;
    int status = KV_OK;
    while (data < end && status == KV_OK) {
        ssize_t written = write(file, data, (size_t)(end - data));
        if (written >= 0)
            data += written;
        else if (errno != EINTR)
            status = failed("write");
    }
    if (status == KV_OK)
        status = push(file, reach);
    if (close(file) != 0 && status == KV_OK)
        status = failed("close");
    return status;
}

/* The name of the temporary file beside a record: no key's, and no longer than a name may be. */
static void folder_temporary(const char *path, char temporary[FOLDER_PATH])
{
    size_t length = strlen(path);
    memcpy(temporary, path, length);
    memcpy(temporary + length, "~", 2);
}

/* Writes beside the record, then gives the file its name. */
static int write_and_rename(struct kv *kv, const char *path, struct kv_slice value, unsigned flags)
{
    char temporary[FOLDER_PATH];
    folder_temporary(path, temporary);
    int file = create_file(kv, temporary, O_TRUNC);
    if (file < 0)
        return failed("create");
    int status = write_file(file, value, reach_of(kv));
    if (status == KV_OK && renameat2(kv->folder, temporary, kv->folder, path, flags) != 0)
        status = errno == EEXIST ? KV_EXISTS : failed("rename");
    if (status == KV_OK)
        return kv->sync ? sync_names(kv, path, 5) : KV_OK;
    unlinkat(kv->folder, temporary, 0);
    return status;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    char path[FOLDER_PATH];
    struct stat status;
    folder_path(kv, key, path);
    int file = openat(kv->folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return errno == ENOENT ? KV_NOT_FOUND : failed("open");
    int result = fstat(file, &status) == 0 ? KV_OK : failed("fstat");
    if (result == KV_OK && (*size = (size_t)status.st_size) > capacity)
        result = KV_TOO_LARGE;
    for (size_t done = 0; result == KV_OK && done < *size;) {
        ssize_t count = read(file, (char *)buffer + done, *size - done);
        if (count > 0)
            done += (size_t)count;
        else if (count == 0)
            result = kv_fail("read: file ends early");
        else if (errno != EINTR)
            result = failed("read");
    }
    if (close(file) != 0 && result == KV_OK)
        result = failed("close");
    return result;
}

static int sync_store(struct kv *kv)
{
    return syncfs(kv->folder) == 0 ? KV_OK : failed("syncfs");
}

/* Temporary files get their names once all of a batch have reached the device. */
static int put(struct kv *kv, const struct kv_record *records, size_t count)
{
    char path[FOLDER_PATH], temporary[FOLDER_PATH];
    int status = KV_OK;
    for (size_t i = 0; i < count && status == KV_OK; i++) {
        folder_path(kv, records[i].key, path);
        folder_temporary(path, temporary);
        int file = create_file(kv, kv->rename ? temporary : path, O_TRUNC);
        enum reach reach = kv->sync ? CACHED : reach_of(kv); /* one syncfs follows */
        status = file < 0 ? failed("create") : write_file(file, records[i].value, reach);
    }
    if (status == KV_OK && kv->sync)
        status = sync_store(kv);
    for (size_t i = 0; i < count && status == KV_OK && kv->rename; i++) {
        folder_path(kv, records[i].key, path);
        folder_temporary(path, temporary);
        if (renameat(kv->folder, temporary, kv->folder, path) != 0)
            status = failed("rename");
    }
    return status == KV_OK && kv->rename && kv->sync ? sync_store(kv) : status;
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count);

/* Syncs what the record needs, where syncfs would wait for all other files, too. */
static int put_one(struct kv *kv, const struct kv_record *record)
{
    char path[FOLDER_PATH];
    folder_path(kv, record->key, path);
    if (kv->rename)
        return write_and_rename(kv, path, record->value, 0);
    int status = write_records(kv, KV_UPDATE, record, 1);
    return status == KV_NOT_FOUND ? write_records(kv, KV_INSERT, record, 1) : status;
}

/* An update truncates, then writes, as a program does by default; the folder stays as it is. A
 * remove leaves the folders above a nested record in place. */
static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    char path[FOLDER_PATH];
    bool inserts = mode == KV_INSERT;
    if (mode == KV_PUT)
        return kv->sync && count == 1 ? put_one(kv, records) : put(kv, records, count);
    folder_path(kv, records->key, path);
    if (mode == KV_REMOVE) {
        if (unlinkat(kv->folder, path, 0) != 0)
            return errno == ENOENT ? KV_NOT_FOUND : failed("unlink");
        return kv->sync ? sync_names(kv, path, 5) : KV_OK;
    }
    if (kv->rename && (inserts || faccessat(kv->folder, path, F_OK, 0) == 0))
        return write_and_rename(kv, path, records->value, inserts ? RENAME_NOREPLACE : 0);
    int file = inserts ? create_file(kv, path, O_EXCL)
                       : openat(kv->folder, path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 && errno == (inserts ? EEXIST : ENOENT))
        return inserts ? KV_EXISTS : KV_NOT_FOUND;
    if (file < 0)
        return failed(inserts ? "create" : "open");
    int status = write_file(file, records->value, reach_of(kv));
    if (status != KV_OK && inserts)
        unlinkat(kv->folder, path, 0); /* no half record */
    return status == KV_OK && inserts && kv->sync ? sync_names(kv, path, 5) : status;
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    static const char *const synced[] = {"none", "pages written, not flushed", "file and folder"};
    snprintf(text, capacity, "levels=%d\nupdate=%s\nsync=%s\n", kv->nested ? 2 : 0,
             kv->rename ? "write and rename" : "truncate and write", synced[reach_of(kv)]);
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities =
        KV_WRITERS | KV_PROCESSES, /* no KV_THREADS: a reader may find a file truncated */
    .name = KV_NAME,
    .max_key = FOLDER_MAX_KEY,
    .max_value = UINT64_C(1) << 32, /* far below any file system's limit */
    .settings = settings,
    .default_durability = "process",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .sync = sync_store,
    .effective_options = effective_options,
};
