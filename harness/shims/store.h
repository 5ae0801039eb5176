/* What the harness does with a driver before and around its calls: load it, hold callers to its
 * limits and settings, and put a status into words. */
#ifndef STORE_H
#define STORE_H

#include "kv.h"

#include <stdbool.h>

enum { STORE_ERROR = 640 /* bytes that the text of an error takes at most */ };

/* Opens the shared object of a store, checks its ABI, and returns a copy of what it declares, the same
 * one each time: what the shim writes to its own driver later changes nothing. The copy stays valid
 * until exit. NULL and the reason in `error` otherwise. Not for two threads at a time. */
const struct kv_driver *store_load(const char *path, char error[STORE_ERROR]);

/* Opens the store in the folder `path`, if the options are among its settings. Returns KV_OK, or
 * KV_ERROR with the reason in `error`. */
int store_open(const struct kv_driver *driver, const char *path, const struct kv_option *options,
               size_t count, struct kv **kv, char error[STORE_ERROR]);

/* Whether a record is within the store's limits. */
bool store_holds(const struct kv_driver *driver, size_t key_size, size_t value_size);

/* What a status that is not KV_OK means: for KV_ERROR the store's own words. `unknown` receives the
 * words for a status that kv.h does not define. */
const char *store_reason(const struct kv_driver *driver, int status, char unknown[32]);

#endif
