#include "bare.h"

#include <leveldb/c.h>

static leveldb_t *db;
static leveldb_options_t *options;
static leveldb_readoptions_t *read_options;
static leveldb_writeoptions_t *write_options;

void bare_open(const char *folder)
{
    char *error = NULL;
    options = leveldb_options_create();
    read_options = leveldb_readoptions_create();
    write_options = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(options, 1);
    db = leveldb_open(options, folder, &error);
    need(error == NULL, "open");
}

void bare_fill(const struct bare *bare, const struct bench_plan *plan, size_t batch,
               uint64_t *nanoseconds)
{
    static unsigned char keys[BARE_BATCH][RECORDS_KEY_SIZE];
    for (size_t first = 0, n = 0, count; first < plan->count; first += count, n++) {
        char *error = NULL;
        count = batch_keys(bare, plan, first, batch, keys);
        uint64_t start = now();
        leveldb_writebatch_t *writes = leveldb_writebatch_create();
        for (size_t i = 0; i < count; i++)
            leveldb_writebatch_put(writes, (char *)keys[i], RECORDS_KEY_SIZE,
                                   (const char *)bare->pool + plan->offset[first + i],
                                   plan->size[first + i]);
        leveldb_write(db, write_options, writes, &error);
        leveldb_writebatch_destroy(writes);
        nanoseconds[n] = now() - start;
        need(error == NULL, "write");
    }
}

void bare_update(const struct bare *bare, const struct bench_plan *plan, bool look_up,
                 uint64_t *nanoseconds)
{
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char key[RECORDS_KEY_SIZE];
        char *error = NULL;
        bool found = true;
        records_key(plan->number[i], bare->stride, key);
        const void *value = fresh(bare, plan, i);
        uint64_t start = now();
        if (look_up) {
            size_t size;
            char *old = leveldb_get(db, read_options, (char *)key, sizeof key, &size, &error);
            found = old != NULL;
            leveldb_free(old);
        }
        if (found)
            leveldb_put(db, write_options, (char *)key, sizeof key, value, plan->size[i], &error);
        nanoseconds[i] = now() - start;
        need(found && error == NULL, "update");
    }
}

void bare_get(const struct bare *bare, const struct bench_plan *plan, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char key[RECORDS_KEY_SIZE];
        char *error = NULL;
        size_t size = 0;
        records_key(plan->number[i], bare->stride, key);
        uint64_t start = now();
        char *value = leveldb_get(db, read_options, (char *)key, sizeof key, &size, &error);
        if (value != NULL && size <= bare->capacity)
            memcpy(bare->buffer, value, size);
        leveldb_free(value);
        nanoseconds[i] = now() - start;
        need(error == NULL && size == plan->size[i], "get");
    }
}

void bare_close(void)
{
    leveldb_close(db);
    leveldb_writeoptions_destroy(write_options);
    leveldb_readoptions_destroy(read_options);
    leveldb_options_destroy(options);
}
