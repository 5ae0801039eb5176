/* All records as files in one folder. */
#include "folder.h"

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    return folder_open(path, 0, options, count, kv);
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = 0, /* no KV_THREADS: a reader may find a file truncated, not yet written */
    .name = "flat",
    .max_key = FOLDER_MAX_KEY,
    .max_value = FOLDER_MAX_VALUE,
    .settings = folder_settings,
    .default_durability = "process",
    .version = folder_version,
    .error = kv_error,
    .open = open_store,
    .close = folder_close,
    .get = folder_get,
    .insert = folder_insert,
    .update = folder_update,
    .remove = folder_remove,
    .write_batch = folder_write_batch,
    .sync = folder_sync,
    .effective_options = folder_effective_options,
};
