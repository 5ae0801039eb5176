/* What can be set of TokuDB, and reading it back. */
#include "../kv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tokudb.h>

static const struct kv_setting settings[] = {
    {.name = "durability", .value = "none", .means = "no write is synced, nor is a batch"},
    {.name = "durability",
     .value = "process",
     .lacks = "the engine writes its log to the operating system only to sync it"},
    {.name = "durability",
     .value = "sync",
     .means = "DB_AUTO_COMMIT: each write is a transaction whose commit is synced"},
    {.name = "durability",
     .value = "*",
     .lacks = "its updates are atomic at every level that survives a crash"},
    {.name = "memory",
     .least = 4 << 20,
     .means = "set_cachesize gets it all; the engine states and allows a tenth more"},
    {.name = "compression", .value = "none", .means = "TOKU_NO_COMPRESSION"},
    {.name = "compression", .value = "snappy", .means = "TOKU_SNAPPY_METHOD"},
    {.name = "compression", .value = "zlib", .means = "TOKU_ZLIB_METHOD"},
    {.name = "compression", .value = "lzma", .means = "TOKU_LZMA_METHOD"},
    {.name = "compression",
     .value = "*",
     .lacks = "the engine has none, snappy, zlib, lzma and quicklz, with which it ships"},
    {.name = NULL},
};

static const struct compression {
    const char *name;
    TOKU_COMPRESSION_METHOD method;
} compressions[] = {
    {"none", TOKU_NO_COMPRESSION}, {"snappy", TOKU_SNAPPY_METHOD},   {"zlib", TOKU_ZLIB_METHOD},
    {"lzma", TOKU_LZMA_METHOD},    {"quicklz", TOKU_QUICKLZ_METHOD}, {NULL, 0},
};

/* Takes effect where the database is created. */
static int set_compression(DB *db, const struct kv_option *options, size_t count)
{
    for (const struct compression *c = compressions; c->name != NULL; c++)
        if (kv_is(options, count, "compression", c->name))
            return db->set_compression_method(db, c->method);
    return 0;
}

static const char *compression_name(TOKU_COMPRESSION_METHOD method)
{
    for (const struct compression *c = compressions; c->name != NULL; c++)
        if (c->method == method)
            return c->name;
    return method == TOKU_DEFAULT_COMPRESSION_METHOD ? "quicklz" : "other";
}

/* The cache's limit stands in the engine's status only: get_cachesize tells what was set. */
static int get_cache_size(DB_ENV *environment, uint64_t *size)
{
    uint64_t capacity, count, panic;
    fs_redzone_state redzone;
    char text[64];
    int code = environment->get_engine_status_num_rows(environment, &capacity);
    if (code != 0)
        return code;
    TOKU_ENGINE_STATUS_ROW rows = calloc(capacity, sizeof *rows);
    if (rows == NULL)
        return ENOMEM;
    code = environment->get_engine_status(environment, rows, capacity, &count, &redzone, &panic,
                                          text, sizeof text, TOKU_ENGINE_STATUS);
    *size = 0;
    for (uint64_t i = 0; code == 0 && i < count; i++)
        if (strcmp(rows[i].keyname, "CT_SIZE_LIMIT") == 0)
            *size = rows[i].value.num;
    free(rows);
    return code;
}
