/* Readers beside one writer, each a thread with a session of its own. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "loop.h"

/* What the readers did, or the writer. The caller provides the arrays, all zero. Bin i counts the
 * operations that took 1.02^i to 1.02^(i+1) ns, as in histogram.py; tick i counts those that ended
 * in the i-th tick of the run. The last place of an array counts all beyond it. */
struct traffic_tally {
    uint64_t n, sum, min, max; /* nanoseconds, all but n */
    uint64_t *bins, *ticks;
    size_t bin_count, tick_count;
};

struct traffic {
    size_t readers;
    uint64_t reads;    /* that each reader makes at most; 0: no limit */
    uint64_t duration; /* nanoseconds that the run takes at most; 0: no limit */
    uint64_t interval; /* nanoseconds from one write to the next; 0: no writes */
    uint64_t tick;     /* nanoseconds */
    uint64_t records;  /* numbers 0 to records - 1 live */
    uint64_t seed;     /* of the random numbers */
    uint32_t *version; /* of each record; kept up to date */
    struct traffic_tally read, write;
    uint64_t elapsed; /* nanoseconds of the whole run */
};

/* Runs until the readers are done. They get random records. Each value must be one that the record
 * may have at that time: the last one whose write had ended before the get, a later one, or one
 * that is being written. The writer overwrites random records, in batches of one. A late writer
 * catches up on a hundredth of a second of writes at most, so no second has more than 1 % more
 * writes than the interval allows. Needs KV_THREADS. Returns a kv_status; the reason of a failure
 * is in loop->error. */
int traffic_run(struct loop *loop, struct traffic *traffic);

#endif
