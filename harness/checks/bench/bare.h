/* What a program would write by hand on an engine's own interface: open, fill in batches, update,
 * get. No contract, no shim, no check of an answer beyond its presence and size; but the same plans,
 * the same copies and the same clock reads as the harness, so that the quotient of the two is what
 * the harness adds.
 *
 * One file an engine, compiled to one shared object. Durability is `process` as in kv.h: nothing is
 * synced. Whatever fails ends the process with a message: there is nothing to go on with. */
#ifndef BARE_H
#define BARE_H

#include "../../shims/bench.h"
#include "../../shims/records.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Where values come from and go to; see struct bench. */
struct bare {
    const unsigned char *pool;
    uint64_t stride;
    unsigned char *buffer, *value;
    size_t capacity;
};

/* Creates the store in an empty folder. */
void bare_open(const char *folder);
/* Writes all records in batches of `batch`, at most BARE_BATCH; nanoseconds[i] is the time of
 * batch i. */
void bare_fill(const struct bare *bare, const struct bench_plan *plan, size_t batch,
               uint64_t *nanoseconds);
/* nanoseconds[i] is the time of update i. `look_up`: find out first whether the key exists, where
 * the engine has no update that tells (as the contract asks); else write over whatever is there. */
void bare_update(const struct bare *bare, const struct bench_plan *plan, bool look_up,
                 uint64_t *nanoseconds);
/* nanoseconds[i] is the time of get i, which ends with the value in the buffer. */
void bare_get(const struct bare *bare, const struct bench_plan *plan, uint64_t *nanoseconds);
void bare_close(void);

enum { BARE_BATCH = 1000 };

static inline uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Ends the process unless all is well. */
static inline void need(bool well, const char *what)
{
    if (well)
        return;
    fprintf(stderr, "bare loop: %s failed\n", what);
    exit(1);
}

/* The bytes of value i, copied to where a program has just made them. */
static inline const void *fresh(const struct bare *bare, const struct bench_plan *plan, size_t i)
{
    return memcpy(bare->value, bare->pool + plan->offset[i], plan->size[i]);
}

/* The keys of the batch that begins at record `first`, and its values called into the processor's
 * cache; returns how many. */
__attribute__((always_inline)) static inline size_t
batch_keys(const struct bare *bare, const struct bench_plan *plan, size_t first, size_t batch,
           unsigned char keys[][RECORDS_KEY_SIZE])
{
    size_t count = plan->count - first < batch ? plan->count - first : batch;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *value = bare->pool + plan->offset[first + i];
        for (size_t at = 0; at < plan->size[first + i]; at += 64)
            __builtin_prefetch(value + at);
        __builtin_prefetch(value + plan->size[first + i] - 1);
        records_key(plan->number[first + i], bare->stride, keys[i]);
    }
    return count;
}

#endif
