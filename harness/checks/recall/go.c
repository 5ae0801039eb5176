/* An engine in Go. Its library is loaded when the store is opened, since Go's threads do not survive
 * the fork before that. It lies beside the shim, as LIBRARY. */
#include "../../shims/shim.h"

#include <dlfcn.h>

struct kv {
    char *(*close)(void);
    char *(*get)(const void *key, size_t key_size, void **value, size_t *size);
    char *(*put)(const void *key, size_t key_size, const void *value, size_t size);
    char *(*remove)(const void *key, size_t key_size);
};

static const struct kv_setting settings[] = {
    {"durability", "sync", .means = "WriteOptions.Sync"},
    {"durability", "*", .lacks = "not offered here"},
    {"write_buffer", NULL, 1024, .means = "Options.WriteBuffer"},
    {NULL},
};

static const char *version(void)
{
    return VERSION;
}

/* The status for an error's text, which is freed. */
static int status_of(char *said)
{
    int status = said == NULL ? KV_OK : kv_fail("%s", said);
    free(said);
    return status;
}

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        kv_fail("%s", dlerror());
    return found;
}

static void *load_library(void)
{
    static const char here;
    char path[4096];
    Dl_info own;
    if (dladdr(&here, &own) == 0)
        return NULL;
    snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(own.dli_fname, '/') - own.dli_fname),
             own.dli_fname, LIBRARY);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        kv_fail("%s", dlerror());
    return library;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    void *library = load_library();
    if (library == NULL)
        return KV_ERROR;
    char *(*open)(const char *, size_t) = function(library, "recall_open");
    struct kv found = {
        .close = function(library, "recall_close"),
        .get = function(library, "recall_get"),
        .put = function(library, "recall_put"),
        .remove = function(library, "recall_remove"),
    };
    if (open == NULL || !found.close || !found.get || !found.put || !found.remove)
        return KV_ERROR;
    struct kv *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    *opened = found;
    int status = status_of(open(path, kv_number(options, count, "write_buffer")));
    if (status == KV_OK)
        *kv = opened;
    else
        free(opened);
    return status;
}

static int close_store(struct kv *kv)
{
    int status = status_of(kv->close());
    free(kv);
    return status;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    void *value = NULL;
    size_t found = 0;
    int status = status_of(kv->get(key.data, key.size, &value, &found));
    if (status == KV_OK && value == NULL)
        return KV_NOT_FOUND;
    if (status == KV_OK)
        status = kv_copy((struct kv_slice){value, found}, buffer, capacity, size);
    free(value);
    return status;
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    int status = KV_OK;
    for (size_t i = 0; i < count && status == KV_OK; i++) {
        struct kv_slice key = records[i].key, value = records[i].value;
        char none;
        size_t size;
        int there = mode == KV_PUT ? KV_OK : get(kv, key, &none, 0, &size);
        if (there == KV_ERROR)
            return there;
        if (mode == KV_INSERT && there != KV_NOT_FOUND)
            return KV_EXISTS;
        if ((mode == KV_UPDATE || mode == KV_REMOVE) && there == KV_NOT_FOUND)
            return KV_NOT_FOUND;
        status = status_of(mode == KV_REMOVE ? kv->remove(key.data, key.size)
                                             : kv->put(key.data, key.size, value.data, value.size));
    }
    return status;
}

static int sync_store(struct kv *kv)
{
    (void)kv; /* each write was */
    return KV_OK;
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    (void)kv;
    snprintf(text, capacity, "sync=each write\n");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .name = KV_NAME,
    .max_key = 1 << 16,
    .max_value = 1 << 26,
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
