/* The store that does nothing: the harness's own floor. At `sync` each write waits for one sync of
 * one block, and nothing else: the floor of a store that syncs each write. */
#include "../shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

enum { BLOCK = 4096 };

struct kv {
    int file; /* -1 unless writes sync */
};

static const struct kv_setting settings[] = {
    {.name = "durability",
     .value = "sync",
     .means = "pwrite of one block and fdatasync, a write; it keeps nothing"},
    {.name = "durability", .value = "*", .lacks = "it keeps nothing"},
    {.name = "memory", .value = "*", .lacks = "it keeps nothing"},
    {.name = "compression", .value = "*", .lacks = "it keeps nothing"},
    {.name = NULL},
};

static const char *version(void)
{
    return "1";
}

static int failed(const char *what)
{
    return kv_fail("null: %s: %s", what, strerror(errno));
}

static int sync_block(int file)
{
    static const char block[BLOCK];
    if (pwrite(file, block, sizeof block, 0) != sizeof block)
        return failed("pwrite");
    return fdatasync(file) == 0 ? KV_OK : failed("fdatasync");
}

static int close_store(struct kv *kv)
{
    int closed = kv->file < 0 ? 0 : close(kv->file);
    free(kv);
    return closed == 0 ? KV_OK : failed("close");
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    *kv = malloc(sizeof **kv);
    if (*kv == NULL)
        return kv_fail("out of memory");
    (*kv)->file = -1;
    if (!kv_is(options, count, "durability", "sync"))
        return KV_OK;
    char name[PATH_MAX];
    if ((size_t)snprintf(name, sizeof name, "%s/block", path) >= sizeof name) {
        free(*kv);
        return kv_fail("null: the path of its folder is too long");
    }
    (*kv)->file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if ((*kv)->file < 0) {
        free(*kv);
        return failed(name);
    }
    if (sync_block((*kv)->file) != KV_OK) { /* allocates it, which later syncs need not */
        close_store(*kv);
        return KV_ERROR;
    }
    return KV_OK;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    (void)kv, (void)key, (void)buffer, (void)capacity;
    *size = 0;
    return KV_OK;
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    (void)mode, (void)records, (void)count;
    return kv->file < 0 ? KV_OK : sync_block(kv->file);
}

static int sync_store(struct kv *kv)
{
    return kv->file < 0 ? KV_OK : sync_block(kv->file);
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    (void)kv;
    snprintf(text, capacity, "keeps=nothing\n");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_THREADS | KV_FORGETS | KV_WRITERS | KV_PROCESSES,
    .name = KV_NAME,
    .max_key = UINT32_MAX,
    .max_value = UINT32_MAX,
    .settings = settings,
    .default_durability = "none",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .sync = sync_store,
    .effective_options = effective_options,
};
