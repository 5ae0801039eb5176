/* Helpers for shims: the text behind error(), and the options that open is given. */
#ifndef SHIM_H
#define SHIM_H

#include "kv.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CMake sets the name of a shim, and the origin of its engine, " (...)", which ends the version. */
#ifndef KV_NAME
#define KV_NAME "unnamed"
#endif
#ifndef KV_BUILD
#define KV_BUILD ""
#endif

static _Thread_local char kv_message[512];

/* For the driver's .error. */
static inline const char *kv_error(void)
{
    return kv_message;
}

/* Keeps an error's text and returns KV_ERROR. */
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

/* Copies a value as `get` must. Returns KV_TOO_LARGE if it does not fit; sets *size in any case. */
static inline int kv_copy(struct kv_slice value, void *buffer, size_t capacity, size_t *size)
{
    *size = value.size;
    if (value.size > capacity)
        return KV_TOO_LARGE;
    memcpy(buffer, value.data, value.size);
    return KV_OK;
}

/* The value given for a setting; NULL if there is none, which leaves it as shipped. */
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

/* Whether a durability level is given, and writes survive a crash of the process at it. */
static inline bool kv_durable(const struct kv_option *options, size_t count)
{
    const char *level = kv_given(options, count, "durability");
    return level != NULL && strcmp(level, "none") != 0;
}

/* The number given for a setting; 0 if there is none. */
static inline uint64_t kv_number(const struct kv_option *options, size_t count, const char *name)
{
    const char *given = kv_given(options, count, name);
    return given == NULL ? 0 : strtoull(given, NULL, 10);
}

#endif
