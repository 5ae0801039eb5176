#include "bare.h"

#include <rocksdb/c.h>

static rocksdb_t *db;
static rocksdb_options_t *options;
static rocksdb_readoptions_t *read_options;
static rocksdb_writeoptions_t *write_options;

void bare_open(const char *folder)
{
    char *error = NULL;
    options = rocksdb_options_create();
    read_options = rocksdb_readoptions_create();
    write_options = rocksdb_writeoptions_create();
    rocksdb_options_set_create_if_missing(options, 1);
    db = rocksdb_open(options, folder, &error);
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
        rocksdb_writebatch_t *writes = rocksdb_writebatch_create();
        for (size_t i = 0; i < count; i++)
            rocksdb_writebatch_put(writes, (char *)keys[i], RECORDS_KEY_SIZE,
                                   (const char *)bare->pool + plan->offset[first + i],
                                   plan->size[first + i]);
        rocksdb_write(db, write_options, writes, &error);
        rocksdb_writebatch_destroy(writes);
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
            rocksdb_pinnableslice_t *old =
                rocksdb_get_pinned(db, read_options, (char *)key, sizeof key, &error);
            found = old != NULL;
            if (found)
                rocksdb_pinnableslice_destroy(old);
        }
        if (found)
            rocksdb_put(db, write_options, (char *)key, sizeof key, value, plan->size[i], &error);
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
        rocksdb_pinnableslice_t *found =
            rocksdb_get_pinned(db, read_options, (char *)key, sizeof key, &error);
        if (found != NULL) {
            const char *value = rocksdb_pinnableslice_value(found, &size);
            if (size <= bare->capacity)
                memcpy(bare->buffer, value, size);
            rocksdb_pinnableslice_destroy(found);
        }
        nanoseconds[i] = now() - start;
        need(error == NULL && size == plan->size[i], "get");
    }
}

void bare_close(void)
{
    rocksdb_close(db);
    rocksdb_writeoptions_destroy(write_options);
    rocksdb_readoptions_destroy(read_options);
    rocksdb_options_destroy(options);
}
