/* Runs readers beside one writer. Each is a thread with its own session of the store. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "loop.h"

/* The operations of all readers, or of the writer. The caller provides the arrays, filled with
 * zeros. Bin i counts the operations that took 1.02^i to 1.02^(i+1) ns, as in histogram.py. Tick i
 * counts those that ended in the i-th tick of the run. The last element counts all beyond it. */
struct traffic_tally {
    uint64_t n, sum, min, max; /* nanoseconds, all but n */
    uint64_t *bins, *ticks;
    size_t bin_count, tick_count;
};

struct traffic {
    size_t readers;
    uint64_t reads;    /* of each reader, at most; 0: no limit */
    uint64_t duration; /* of the run, at most, in nanoseconds; 0: no limit */
    uint64_t interval; /* nanoseconds from one write to the next; 0: no writes */
    uint64_t tick;     /* nanoseconds */
    uint64_t records;  /* the store holds numbers 0 to records - 1 */
    uint64_t seed;     /* of the random numbers */
    uint32_t *version; /* of each record; kept up to date */
    struct traffic_tally read, write;
    uint64_t elapsed; /* nanoseconds of the whole run */
};

/* Runs until the readers are done. Readers get random records, and the writer overwrites random
 * records in batches of one. A value read must be the last one written before the get began, or one
 * written or being written since. A late writer catches up on a hundredth of a second of writes at
 * most, so no second exceeds the rate by more than 1 %. Needs KV_THREADS. Returns a kv_status; the
 * reason of a failure is in loop->error. */
int traffic_run(struct loop *loop, struct traffic *traffic);

#endif
