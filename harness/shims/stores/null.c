/* The store that does nothing: the harness's own floor. */
#include "../shim.h"

struct kv {
    int unused;
};

static const struct kv_setting settings[] = {
    {.name = "durability", .value = "*", .lacks = "it keeps nothing"},
    {.name = "memory", .value = "*", .lacks = "it keeps nothing"},
    {.name = "compression", .value = "*", .lacks = "it keeps nothing"},
    {.name = NULL},
};

static const char *version(void)
{
    return "1";
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    (void)path, (void)options, (void)count;
    *kv = calloc(1, sizeof **kv);
    return *kv == NULL ? kv_fail("out of memory") : KV_OK;
}

static int close_store(struct kv *kv)
{
    free(kv);
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
    (void)kv, (void)mode, (void)records, (void)count;
    return KV_OK;
}

static int sync_store(struct kv *kv)
{
    (void)kv;
    return KV_OK;
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
