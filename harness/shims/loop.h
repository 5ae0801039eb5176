/* The timed loops open a store, run plans on it and record how long each operation took. Every
 * function returns a kv_status and writes the reason of a failure into loop->error. */
#ifndef LOOP_H
#define LOOP_H

#include "records.h"
#include "store.h"

enum loop_operation {
    LOOP_INSERT,
    LOOP_GET,
    LOOP_UPDATE,
    LOOP_REMOVE,
    LOOP_SCAN, /* reads records in key order; see loop_plan */
};

/* `count` operations, as arrays of that length. A value is `size` bytes from `offset` of the pool:
 * insert and update write it, and get must return it. A scan begins at the number and reads `size`
 * records. These must exist, with consecutive numbers, and all have the version `offset`. */
struct loop_plan {
    size_t count;
    const uint8_t *operation;
    const uint64_t *number;
    const uint32_t *offset;
    const uint32_t *size;
};

enum { LOOP_SCAN_MAX = 100 }; /* records that a LOOP_SCAN reads */

/* When operations start. In a closed loop (rate 0) an operation starts when the one before it has
 * ended. In an open loop `rate` records are due per second. The time of an operation then begins
 * when it is due, so it includes the wait for earlier ones. The batch after one of b records is
 * due b / rate seconds later; any other operation counts as one record. */
struct loop_pace {
    uint64_t rate;  /* at most one record per nanosecond */
    uint64_t start; /* when the first operation was due; 0 before it */
    uint64_t done;  /* records since then */
    uint64_t left;  /* when the last plan ended; the harness's time between plans is no delay */
};

struct loop {
    const struct kv_driver *driver;
    struct kv *kv;
    const unsigned char *pool;
    uint64_t stride; /* of the keys, see records.h */
    size_t key_size; /* bytes of a key, 8 to RECORDS_KEY_SIZE */
    struct records_values values;
    /* Both have `capacity` bytes and begin at the start of a page. malloc returns large blocks 16
     * bytes after it, and some processors copy to such addresses at half speed (AMD EPYC, read() of
     * 1 MiB: 114 us instead of 53 us). */
    unsigned char *buffer; /* receives the values read */
    unsigned char *value;  /* the value to write */
    size_t capacity;       /* the largest value, in bytes */
    struct loop_pace pace;
    char error[768];
};

/* Opens the store in the folder `path`. Fails if the store cannot hold keys or values of these
 * sizes. The caller sets every field except kv and error. */
int loop_open(struct loop *loop, const char *path, const struct kv_option *options, size_t count);
int loop_close(struct loop *loop);

/* Writes the plan's records in batches of at most `batch_records` records and `batch_bytes` bytes
 * of values, but at least one record. nanoseconds[i] is the time of batch i; *batches is the number
 * of batches, at most the plan's count. */
int loop_load(struct loop *loop, const struct loop_plan *plan, size_t batch_records,
              size_t batch_bytes, uint64_t *nanoseconds, size_t *batches);

/* Runs the plan, one operation after the other; nanoseconds[i] is the time of operation i. Each
 * value read is compared with the expected one outside the timed part, unless the store keeps
 * none (KV_FORGETS). Stops at the first operation that fails or answers wrongly. */
int loop_run(struct loop *loop, const struct loop_plan *plan, uint64_t *nanoseconds);

/* Runs a plan whose operations the store must refuse: inserts of keys that exist; gets, updates and
 * removes of keys that do not. An operation that succeeds is a wrong answer, unless the store keeps
 * nothing (KV_FORGETS). Nothing is timed. */
int loop_refuse(struct loop *loop, const struct loop_plan *plan);

#define LOOP_END UINT64_MAX

/* Scans the keys of the numbers from `first` to below `end` and compares them with the plan: the
 * store must have its records, in the order of their numbers and with their values, and no others.
 * A `first` of 0 is the store's first key, an `end` of LOOP_END its last. Needs KV_SCAN. */
int loop_check(struct loop *loop, const struct loop_plan *plan, uint64_t first, uint64_t end);

/* Scans as loop_check does, and measures: nanoseconds[i] is the time from the end of record i - 1,
 * or from the call, until the value of record i was copied. Backward, the plan is in descending
 * order. */
int loop_scan(struct loop *loop, const struct loop_plan *plan, uint64_t first, uint64_t end,
              enum kv_direction direction, uint64_t *nanoseconds);

/* Calls the store's `compact`; KV_ERROR if it has none. */
int loop_compact(struct loop *loop);

/* Reads the clock twice, `count` times, with no operation between: the cost of timing itself.
 * nanoseconds[i] is the difference of pair i. */
void loop_clock(size_t count, uint64_t *nanoseconds);

#endif
