/* Functions around a driver: they load it, check arguments against its limits and settings, and
 * describe a status in words. */
#ifndef STORE_H
#define STORE_H

#include "kv.h"

#include <stdbool.h>

enum { STORE_ERROR = 640 /* bytes that the text of an error takes at most */ };

/* Loads the shared object of a store, checks its ABI, and returns a copy of its driver. Each call
 * returns the same copy, which later writes by the shim do not change and which stays valid until
 * exit. Returns NULL after an error, with the reason in `error`. Not thread-safe. */
const struct kv_driver *store_load(const char *path, char error[STORE_ERROR]);

/* Opens the store in the folder `path`, if the options are among its settings. Returns KV_OK, or
 * KV_ERROR with the reason in `error`. */
int store_open(const struct kv_driver *driver, const char *path, const struct kv_option *options,
               size_t count, struct kv **kv, char error[STORE_ERROR]);

/* Whether a record is within the store's limits. */
bool store_holds(const struct kv_driver *driver, size_t key_size, size_t value_size);

/* The meaning of a status other than KV_OK; for KV_ERROR the store's own error message. `unknown`
 * receives the words for a status that kv.h does not define. */
const char *store_reason(const struct kv_driver *driver, int status, char unknown[32]);

#endif
