/* What a program would write by hand on an engine's own interface: open, fill in batches, update,
 * get. There is no contract, no shim and no check of an answer beyond its presence and size. Plans,
 * copies and clock reads are those of the harness, so the ratio of the two times is the harness's
 * own cost.
 *
 * Each engine is one file, compiled to one shared object: it includes this header, which has the
 * loops, and defines the five static functions below, which the compiler inlines. Durability is
 * `process` as in kv.h: nothing is synced. An error ends the process with a message. */
#ifndef BARE_H
#define BARE_H

#include "../../shims/loop.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BARE_BATCH = 1000, KEY = RECORDS_KEY_SIZE };

struct record {
    unsigned char key[KEY];
    const void *value;
    size_t size;
};

/* Creates the store in an empty folder. */
static void open_store(const char *folder);
static bool write_batch(struct record *records, size_t count);
/* look_up: first find out whether the key exists, if the engine's update does not say so (the
 * contract requires it); otherwise overwrite whatever is there. */
static bool update(struct record *record, bool look_up);
/* Copies the value if it fits; returns its size, or SIZE_MAX after an error. */
static size_t get(unsigned char *key, void *buffer, size_t capacity);
static void close_store(void);

/* Where values come from and go to; see struct loop. */
struct bare {
    const unsigned char *pool;
    uint64_t stride;
    unsigned char *buffer, *value;
    size_t capacity;
};

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Ends the process unless all is well. */
static void need(bool well, const char *what)
{
    if (well)
        return;
    fprintf(stderr, "bare loop: %s failed\n", what);
    exit(1);
}

void bare_open(const char *folder)
{
    open_store(folder);
}

/* Writes all records in batches of `batch`, at most BARE_BATCH; nanoseconds[i] is the time of
 * batch i. As in the harness, values are in the processor's cache when the clock starts. */
void bare_fill(const struct bare *bare, const struct loop_plan *plan, size_t batch,
               uint64_t *nanoseconds)
{
    static struct record records[BARE_BATCH];
    for (size_t first = 0, n = 0, count; first < plan->count; first += count, n++) {
        count = plan->count - first < batch ? plan->count - first : batch;
        for (size_t i = 0; i < count; i++) {
            const unsigned char *value = bare->pool + plan->offset[first + i];
            for (size_t at = 0; at < plan->size[first + i]; at += 64)
                __builtin_prefetch(value + at);
            __builtin_prefetch(value + plan->size[first + i] - 1);
            records[i].value = value;
            records[i].size = plan->size[first + i];
            records_key(plan->number[first + i], bare->stride, records[i].key);
        }
        uint64_t start = now();
        bool well = write_batch(records, count);
        nanoseconds[n] = now() - start;
        need(well, "write");
    }
}

/* nanoseconds[i] is the time of update i. The value is copied to where a program has just made it. */
void bare_update(const struct bare *bare, const struct loop_plan *plan, bool look_up,
                 uint64_t *nanoseconds)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct record record = {.value = bare->value, .size = plan->size[i]};
        records_key(plan->number[i], bare->stride, record.key);
        memcpy(bare->value, bare->pool + plan->offset[i], plan->size[i]);
        uint64_t start = now();
        bool well = update(&record, look_up);
        nanoseconds[i] = now() - start;
        need(well, "update");
    }
}

/* nanoseconds[i] is the time of get i, which ends with the value in the buffer. */
void bare_get(const struct bare *bare, const struct loop_plan *plan, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char key[KEY];
        records_key(plan->number[i], bare->stride, key);
        uint64_t start = now();
        size_t size = get(key, bare->buffer, bare->capacity);
        nanoseconds[i] = now() - start;
        need(size == plan->size[i], "get");
    }
}

void bare_close(void)
{
    close_store();
}

#endif
