/* Plans: which operation comes next, on which record. They are generated while the loop runs, in
 * constant memory, so an engine is never idle while the harness plans. */
#ifndef PLAN_H
#define PLAN_H

#include "records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_operation { PLAN_INSERT, PLAN_GET, PLAN_UPDATE, PLAN_REMOVE, PLAN_SCAN, PLAN_OPERATIONS };

/* The records: numbers below `born` exist, with version 0, unless `state` says otherwise. `state`
 * has a byte for each number below `universe`: the version in the lower seven bits, and PLAN_DEAD.
 * Bytes of records that were never rewritten are 0, and take no memory. */
enum { PLAN_DEAD = 128 };
struct plan_records {
    uint64_t universe, born;
    uint64_t loaded; /* numbers below it existed first: the range for overwrites and popularity */
    uint8_t *state;
    uint64_t *dead; /* the numbers of records that rounds, churn or PLAN_DEAD_ONES will insert */
    uint64_t dead_count;
    uint64_t seed, random; /* for the choice of popular records; state for the next random number */
    uint64_t *next;        /* where each of four operations continues in sequential order */
};

/* How operations choose records, for at most `left` operations. */
enum plan_source {
    PLAN_ALL,       /* existing numbers from `at` to below `end`, in order or backward */
    PLAN_MISSING,   /* the same, but missing numbers */
    PLAN_SHUFFLED,  /* existing loaded records, each at most once, in random order */
    PLAN_DRAWN,     /* existing records by `order`, with repetitions */
    PLAN_DEAD_ONES, /* inserts of the records in `dead`, each once */
    PLAN_MIXED,     /* by shares, as in YCSB, on records drawn by `order` */
    PLAN_LISTED,    /* from the arrays, starting at `at` */
    PLAN_CHURNED,   /* updates, and equally many removes and inserts of removed records */
};
enum plan_order { PLAN_UNIFORM, PLAN_SEQUENTIAL, PLAN_ZIPFIAN, PLAN_NEWEST };

/* The caller sets the first part, clears the rest and then calls plan_begin. */
struct plan {
    struct plan_records *records;
    uint32_t source;
    uint32_t operation; /* for all sources but PLAN_MIXED and PLAN_LISTED */
    uint32_t order;
    uint32_t refused; /* the store must refuse the operations: `records` do not change */
    uint32_t backward;
    uint32_t length;        /* records that each scan of PLAN_DRAWN reads */
    uint64_t at, end, left; /* in PLAN_CHURNED, `end` is the most dead records at a time */
    /* Cumulative shares of operations in a mix, of 2^32: gets; gets and updates; these and inserts;
     * these and scans. The rest are a get and an update of one record each. In PLAN_CHURNED
     * `updates` is the share of updates, and `inserts` that of updates and removes; the rest are
     * inserts. */
    uint64_t gets, updates, inserts, scans;
    const uint8_t *listed_operation;
    const uint64_t *listed_number;
    const uint8_t *listed_version;
    /* Internal. */
    uint64_t seed;             /* of a shuffled order */
    uint64_t pending;          /* 1 + the number that a mix still has to update; 0: none */
    double low, high, certain; /* of the zipfian distribution */
};

/* One operation. An insert or update writes the version, and a get must return it. A scan starts at
 * the number and reads `length` records, or up to the last one; in a mix these have version 0 and
 * consecutive numbers. */
struct plan_item {
    uint64_t number;
    uint32_t operation, version, length;
};

enum { PLAN_SCAN_MAX = 100 }; /* most records that a scan in a mix reads */

/* Makes `count` records dead, spread evenly over those born, and lists them in `dead`. */
void plan_bury(struct plan_records *records, uint64_t count);

void plan_begin(struct plan *plan);

/* The next operation; false if there is none. `records` is updated at once. */
bool plan_next(struct plan *plan, struct plan_item *item);

/* Runs through a plan, and returns the number of its operations and the bytes of their values. */
void plan_total(struct plan *plan, const struct records_values *values, uint64_t *count,
                uint64_t *bytes);

bool plan_exists(const struct plan_records *records, uint64_t number);

#endif
