/* Plans: which operation comes next, on which record. They are made while the loop runs, in
 * constant memory, so an engine never rests while the harness thinks. */
#ifndef PLAN_H
#define PLAN_H

#include "records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_operation { PLAN_INSERT, PLAN_GET, PLAN_UPDATE, PLAN_REMOVE, PLAN_SCAN, PLAN_OPERATIONS };

/* The records: numbers below `born` exist, with version 0, unless `state` says otherwise. Its
 * bytes, one for each number below `universe`, hold the version in the lower seven bits, and
 * PLAN_DEAD. Where nothing was rewritten they are 0, and need no memory. */
enum { PLAN_DEAD = 128 };
struct plan_records {
    uint64_t universe, born;
    uint64_t loaded; /* numbers below it were there at first: overwrites and popularity go by it */
    uint8_t *state;
    uint64_t *dead; /* the numbers of those that rounds, churn or PLAN_DEAD_ONES will insert */
    uint64_t dead_count;
    uint64_t seed, random; /* of the popular records; of the next random number */
    uint64_t *next;        /* where each of four operations goes on in sequential order */
};

/* Where the operations come from, `left` of them at most. */
enum plan_source {
    PLAN_ALL,       /* numbers `at` to below `end` that exist, in order or backward */
    PLAN_MISSING,   /* likewise, those that do not exist */
    PLAN_SHUFFLED,  /* the loaded ones that exist, each at most once, in random order */
    PLAN_DRAWN,     /* existing ones by `order`, with repetitions */
    PLAN_DEAD_ONES, /* those of `dead`, to be inserted; no more than these */
    PLAN_MIXED,     /* by shares, as in YCSB, on records drawn by `order` */
    PLAN_LISTED,    /* from the arrays, beginning at `at` */
    PLAN_CHURNED,   /* updates and, each as often, removes and inserts of removed ones */
};
enum plan_order { PLAN_UNIFORM, PLAN_SEQUENTIAL, PLAN_ZIPFIAN, PLAN_NEWEST };

/* The caller sets the first part, zeros the rest and then calls plan_begin. */
struct plan {
    struct plan_records *records;
    uint32_t source;
    uint32_t operation; /* of all sources but PLAN_MIXED and PLAN_LISTED */
    uint32_t order;
    uint32_t refused; /* the store must refuse it: `records` stay as they are */
    uint32_t backward;
    uint32_t length;        /* records that each scan of PLAN_DRAWN reads */
    uint64_t at, end, left; /* of PLAN_CHURNED `end` may be dead at a time */
    /* Of 2^32 operations of a mix: how many are gets; gets or updates; gets, updates or inserts;
     * those or scans. The rest are a get and an update of one record each. Of PLAN_CHURNED: how many
     * are updates; updates or removes. The rest are inserts. */
    uint64_t gets, updates, inserts, scans;
    const uint8_t *listed_operation;
    const uint64_t *listed_number;
    const uint8_t *listed_version;
    /* Its own. */
    uint64_t seed;             /* of a shuffled order */
    uint64_t pending;          /* a mix still has to update this number - 1 */
    double low, high, certain; /* of the zipfian distribution */
};

/* One operation. An insert or update writes the version, and a get must return it. A scan begins at
 * the number and reads `length` records, or all to the end; in a mix these are of version 0, with
 * consecutive numbers. */
struct plan_item {
    uint64_t number;
    uint32_t operation, version, length;
};

enum { PLAN_SCAN_MAX = 100 }; /* records that a scan in a mix reads */

/* Makes as many records dead as the array `dead` is to have, spread over those born. */
void plan_bury(struct plan_records *records, uint64_t count);

void plan_begin(struct plan *plan);

/* The next operation; false when there is none. What it changes is in `records` at once. */
bool plan_next(struct plan *plan, struct plan_item *item);

/* Runs to the end of a plan: the number of its operations, and the bytes of their values. */
void plan_total(struct plan *plan, const struct records_values *values, uint64_t *count,
                uint64_t *bytes);

bool plan_exists(const struct plan_records *records, uint64_t number);

#endif
