/* Runs readers and writers beside each other. Each is a thread with its own session of the store. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "loop.h"

struct traffic {
    size_t readers, writers; /* one thread at least, and no more writers than records */
    uint64_t reads;          /* of each reader, at most; 0: no limit */
    uint64_t duration;       /* of the run, at most, in nanoseconds; 0: no limit, if readers have */
    uint64_t interval;       /* nanoseconds from one write of a writer to its next; 0: no wait */
    uint64_t seed;           /* of the random numbers */
    struct plan_records *records;           /* all below `born` exist; kept up to date */
    struct loop_phase *read, *write, *both; /* of the readers, the writers, and what both used */
    uint64_t *done; /* receives the operations of each thread, those of the readers first */
};

/* Runs until the readers are done, or without readers until the time is over. It begins when all
 * threads have their sessions. Readers get random records, and writers overwrite random records in
 * batches of one. Of W writers, number w overwrites the records whose number modulo W is w: they
 * share pages, but no record. A value read must be the last one written before the get began, or one
 * written or being written since; a record is written less than RECORDS_VERSIONS times meanwhile, if
 * there are a few thousand of them. A late writer catches up on a hundredth of a second of writes at
 * most, so no second exceeds the rate by more than 1%. Readers beside writers need KV_THREADS,
 * several writers KV_WRITERS, readers alone either. Returns a kv_status; the reason of a failure is
 * in loop->error. */
int traffic_run(struct loop *loop, struct traffic *traffic);

#endif
