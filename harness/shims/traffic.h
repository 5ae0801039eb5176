/* Readers beside one writer, each a thread with a session of its own. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "loop.h"

/* What one side did. The caller gives the arrays, all zero. Bin i counts the operations that took
 * 1.02^i to 1.02^(i+1) ns (as histogram.py), tick i those that ended in the i-th tick of the run;
 * what lies beyond an array counts in its last place. */
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

/* Runs until the readers are done. They get records at random, and every value has to be one that
 * the record may have at that time: the last one whose write had ended before the get, a later
 * one, or one that is being written. The writer writes over records at random, in batches of one.
 * A write that is late is made up for, but no more than a hundredth of a second of writes: so in
 * any second at most 1 % more is written than the interval allows. For stores with KV_THREADS.
 * Returns a kv_status; what went wrong is in loop->error. */
int traffic_run(struct loop *loop, struct traffic *traffic);

#endif
