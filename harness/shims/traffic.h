/* Runs readers beside one writer. Each is a thread with its own session of the store. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "loop.h"

struct traffic {
    size_t readers;
    uint64_t reads;               /* of each reader, at most; 0: no limit */
    uint64_t duration;            /* of the run, at most, in nanoseconds; 0: no limit */
    uint64_t interval;            /* nanoseconds from one write to the next; 0: no writes */
    uint64_t seed;                /* of the random numbers */
    struct plan_records *records; /* all below `born` exist; kept up to date */
    struct loop_phase *read, *write, *both; /* of the readers, the writer, and what both used */
};

/* Runs until the readers are done. Readers get random records, and the writer overwrites random
 * records in batches of one. A value read must be the last one written before the get began, or one
 * written or being written since. A late writer catches up on a hundredth of a second of writes at
 * most, so no second exceeds the rate by more than 1 %. Needs KV_THREADS. Returns a kv_status; the
 * reason of a failure is in loop->error. */
int traffic_run(struct loop *loop, struct traffic *traffic);

#endif
