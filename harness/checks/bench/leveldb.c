#include "bare.h"

#include <leveldb/c.h>

static leveldb_t *db;
static leveldb_options_t *options;
static leveldb_readoptions_t *read_options;
static leveldb_writeoptions_t *write_options;

static void open_store(const char *folder)
{
    char *error = NULL;
    options = leveldb_options_create();
    read_options = leveldb_readoptions_create();
    write_options = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(options, 1);
    db = leveldb_open(options, folder, &error);
    need(error == NULL, "open");
}

static bool write_batch(struct record *records, size_t count)
{
    char *error = NULL;
    leveldb_writebatch_t *writes = leveldb_writebatch_create();
    for (size_t i = 0; i < count; i++)
        leveldb_writebatch_put(writes, (char *)records[i].key, KEY, records[i].value,
                               records[i].size);
    leveldb_write(db, write_options, writes, &error);
    leveldb_writebatch_destroy(writes);
    return error == NULL;
}

static bool write_one(struct record *record, enum plan_operation operation)
{
    char *error = NULL;
    if (LOOK_UP) {
        size_t size;
        char *old = leveldb_get(db, read_options, (char *)record->key, KEY, &size, &error);
        bool found = old != NULL;
        leveldb_free(old);
        if (error != NULL || found == (operation == PLAN_INSERT))
            return false;
    }
    if (operation == PLAN_REMOVE)
        leveldb_delete(db, write_options, (char *)record->key, KEY, &error);
    else
        leveldb_put(db, write_options, (char *)record->key, KEY, record->value, record->size,
                    &error);
    return error == NULL;
}

static size_t get(unsigned char *key, void *buffer, size_t capacity)
{
    char *error = NULL;
    size_t size = 0;
    char *value = leveldb_get(db, read_options, (char *)key, KEY, &size, &error);
    if (value != NULL && size <= capacity)
        memcpy(buffer, value, size);
    leveldb_free(value);
    return value != NULL && error == NULL ? size : SIZE_MAX;
}

static void close_store(void)
{
    leveldb_close(db);
    leveldb_writeoptions_destroy(write_options);
    leveldb_readoptions_destroy(read_options);
    leveldb_options_destroy(options);
}
