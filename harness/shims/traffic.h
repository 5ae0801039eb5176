/* Runs readers and writers concurrently. Each is a thread with its own session of the store. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "loop.h"

struct traffic {
    size_t readers, writers; /* one thread at least, and no more writers than records */
    uint64_t reads;          /* gets of each reader, at most; 0: no limit */
    uint64_t duration;       /* nanoseconds of the run, at most; 0: no limit, if `reads` is one */
    uint64_t interval;       /* nanoseconds from one write of a writer to its next; 0: no wait */
    uint64_t seed;           /* of the random numbers */
    uint64_t first, among;   /* writers of other processes before these; writers of all processes */
    const char *backup;      /* an empty folder for a backup, which the one reader makes; or NULL */
    struct plan_records *records;           /* all below `born` exist; is updated */
    struct loop_phase *read, *write, *both; /* the phases of readers, writers, and both */
    uint64_t *done; /* receives the number of operations of each thread, readers first */
};

/* Runs until the readers are done, or without readers until the time is over. The run begins when
 * all threads have their sessions. Readers get random records, and writers overwrite random records
 * in batches of one. Of the W writers of all processes, number w overwrites the records whose
 * number modulo W is w, so writers share pages, but no record. A get must return the last value
 * written before it began, or one written during it. With a few thousand records, none is written
 * RECORDS_VERSIONS times during a get, so the versions differ. The time of a backup ends when the
 * file system of the copy is synced. A late writer catches up on at most a hundredth of a second of
 * writes, so no second exceeds the rate by more than 1%. Readers with writers need KV_THREADS,
 * several writers KV_WRITERS, readers alone either of these. Returns a kv_status; the reason of a
 * failure is in loop->error. */
int traffic_run(struct loop *loop, struct traffic *traffic);

/* Finds out which version of each record the open store, a copy made by a backup, holds, and writes
 * it to `records`, whose states are those after the backup; `before` are the states before it. A
 * record that is missing, or that had another value than these during the backup, is a wrong answer.
 */
int traffic_find(struct loop *loop, struct plan_records *records, const uint8_t *before);

#endif
