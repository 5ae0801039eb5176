/* The timed loops: they open a store, run plans on it and note how long each operation took.
 * Every function returns a kv_status; what went wrong is in bench->error. */
#ifndef BENCH_H
#define BENCH_H

#include "kv.h"
#include "records.h"

enum bench_operation {
    BENCH_INSERT,
    BENCH_GET,
    BENCH_UPDATE,
    BENCH_REMOVE,
    BENCH_SCAN, /* reads records in key order; see bench_plan */
};

/* `count` operations, as arrays of that length. A value is `size` bytes from `offset` of the pool:
 * what insert and update write, and what get must find. A scan begins at the number and reads
 * `size` records; the numbers that follow have to live, and to be of the version `offset`. */
struct bench_plan {
    size_t count;
    const uint8_t *operation;
    const uint64_t *number;
    const uint32_t *offset;
    const uint32_t *size;
};

enum { BENCH_SCAN_MAX = 100 }; /* records that a BENCH_SCAN reads */

/* When operations start. In a closed loop (interval 0) one starts when the last has ended. In an open
 * loop each is due `interval` ns after the one before was, and its time begins then: an operation
 * that has to wait for an earlier one takes the longer for it. */
struct bench_pace {
    uint64_t interval;
    uint64_t intended; /* when the last operation was due; 0 at first */
    uint64_t left;     /* when the last plan ended: what the harness takes until the next one delays
                          no operation */
};

struct bench {
    const struct kv_driver *driver;
    struct kv *kv;
    const unsigned char *pool;
    uint64_t stride;       /* of the keys, see records.h */
    size_t key_size;       /* bytes of it that are used, 8 to RECORDS_KEY_SIZE */
    struct records_values values;
    /* Each of `capacity` bytes, at the start of a page: 16 bytes after one, where malloc puts large
     * blocks, some processors copy at half their speed (AMD EPYC, read() of 1 MiB: 114 us there,
     * 53 us at the start). */
    unsigned char *buffer; /* receives the values read */
    unsigned char *value;  /* the value to write */
    size_t capacity;       /* the largest value, in bytes */
    struct bench_pace pace;
    char error[768];
};

/* Opens the shared object of a store and checks its ABI. The driver stays valid until exit. */
const struct kv_driver *bench_driver(const char *path, char *error, size_t capacity);

/* What a status that is not KV_OK says: the store's own words for KV_ERROR; `undefined` receives ours
 * for one that kv.h does not define. */
const char *bench_reason(const struct kv_driver *driver, int status, char undefined[32]);

/* Opens the store in the folder `path`. The caller has set all but kv and error. */
int bench_open(struct bench *bench, const char *path, const struct kv_option *options,
                         size_t count);
int bench_close(struct bench *bench);

/* Writes the plan's records in batches of at most `batch_records` records and `batch_bytes` bytes
 * of values (but at least one record). nanoseconds[i] is the time of batch i; *batches their
 * number, at most the plan's count. */
int bench_load(struct bench *bench, const struct bench_plan *plan, size_t batch_records,
                         size_t batch_bytes, uint64_t *nanoseconds, size_t *batches);

/* Runs the plan, one operation after the other; nanoseconds[i] is the time of operation i. Each
 * value read is compared with the expected one outside the timed part, unless the store keeps
 * none (KV_FORGETS). Stops at the first operation that fails or answers wrongly. */
int bench_run(struct bench *bench, const struct bench_plan *plan, uint64_t *nanoseconds);

/* Runs a plan whose operations have to be refused: an insert since its key exists, a get, update or
 * remove since its key does not. One that is done is a wrong answer, unless the store keeps nothing
 * (KV_FORGETS). Nothing is timed. */
int bench_refuse(struct bench *bench, const struct bench_plan *plan);

#define BENCH_END UINT64_MAX

/* Scans the keys of the numbers from `first` to below `end`, and compares what it finds with the
 * plan: its records in the order of their numbers, with their values, and no other. From 0 it scans
 * from the store's very first key, to BENCH_END to its last. For stores with KV_SCAN. */
int bench_check(struct bench *bench, const struct bench_plan *plan, uint64_t first, uint64_t end);

/* The same as a measurement: nanoseconds[i] is the time from the end of record i - 1 (of the first
 * one: from the call) until the value of record i was copied. Backwards, the plan is in descending
 * order. */
int bench_scan(struct bench *bench, const struct bench_plan *plan, uint64_t first, uint64_t end,
               bool backwards, uint64_t *nanoseconds);

/* Has the engine merge what it keeps. KV_ERROR where it has no such call. */
int bench_compact(struct bench *bench);

/* Two clock reads `count` times, and no operation between: what timing costs by itself.
 * nanoseconds[i] is the time that pair i tells. */
void bench_clock(size_t count, uint64_t *nanoseconds);

#endif
