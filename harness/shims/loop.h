/* The timed loops open a store, run plans on it and record how long each operation took. Every
 * function returns a kv_status and writes the reason of a failure into loop->error. */
#ifndef LOOP_H
#define LOOP_H

#include "meter.h"
#include "plan.h"
#include "records.h"
#include "store.h"
#include "tally.h"

/* When operations start. In a closed loop (rate 0) an operation starts when the one before it has
 * ended. In an open loop `rate` records are due per second. The time of an operation then begins
 * when it is due, so it includes the wait for earlier ones. The batch after one of b records is
 * due b / rate seconds later, or after an exponential gap of that mean; any other operation counts
 * as one record. */
struct loop_pace {
    uint64_t rate;        /* at most one record per nanosecond */
    uint64_t exponential; /* whether the gaps are; otherwise they are constant */
    uint64_t random;      /* of the next gap */
    uint64_t start, due;  /* when the first and the last operation were due; 0 before the first */
    double elapsed;       /* ns from when the first one is due to when the next one is */
    uint64_t waited;      /* ns in which the loop did nothing but wait for an operation to be due */
    /* How late those operations began that were due after the end of the one before them: all but
     * the last operation, whose lateness follows, unless it was none of these. */
    struct tally late;
    uint64_t lateness, idle;
};

/* What operations of one kind took and used. Their wall time begins when the operation before them
 * ended. Of it, `paused` are gaps of more than LOOP_PAUSE between two operations, in which an engine
 * rests or catches up. */
enum { LOOP_PAUSE = 5000 };
struct loop_phase {
    struct tally tally;
    struct meter_counts used;
    uint64_t wall, paused; /* nanoseconds */
    uint64_t items;        /* records read or written, and scans */
};

struct loop {
    const struct kv_driver *driver;
    struct kv *kv;
    uint64_t stride; /* of the keys, see records.h */
    size_t key_size; /* bytes of a key, 8 to RECORDS_KEY_MAX */
    struct records_values values;
    /* Both have `capacity` bytes and begin at the start of a page. malloc returns large blocks 16
     * bytes after it, and some processors copy to such addresses at half speed (AMD EPYC, read() of
     * 1 MiB: 114 us instead of 53 us). */
    unsigned char *buffer; /* receives the values read */
    unsigned char *value;  /* the values to write: one, or those of a batch */
    size_t capacity;       /* the largest value, in bytes */
    size_t room;           /* bytes of `value`, at least `capacity` */
    struct loop_pace pace;
    uint64_t longest; /* ns after which a run ends though its plan goes on; 0: never */
    struct meter meter;
    uint64_t *times; /* where it goes when each operation returned, as soon as it has, or NULL */
    /* Its own: when the operation before ended, when the phase began, and what was counted then. */
    uint64_t ended, entered;
    struct meter_counts mark;
    char error[768];
};

/* Opens the store in the folder `path`. Fails if the store cannot hold keys or values of these
 * sizes. The caller sets every field except kv and error. */
int loop_open(struct loop *loop, const char *path, const struct kv_option *options, size_t count);
int loop_close(struct loop *loop);

/* Begins to count, and the phase's timeline if it has one; and adds to a phase what was counted since
 * then: its `used` and its `wall`, which ends at loop->ended. */
void loop_enter(struct loop *loop, struct loop_phase *phase);
void loop_leave(struct loop *loop, struct loop_phase *phase);

/* Writes the plan's records in batches of at most `batch_records` records, and as many as `room` has
 * place for, were each as large as the largest. */
int loop_load(struct loop *loop, struct plan *plan, size_t batch_records, struct loop_phase *phase);

/* Runs the plan, one operation after the other, until it is done and, unless `least` is 0, so many
 * nanoseconds have passed: a plan of drawn records goes on until then, and in an open loop until all
 * operations due by then are done. phases[PLAN_OPERATIONS] is that of all operations; the others have
 * the tally of each kind. Each value read is checked outside the timed part, unless the store keeps
 * none (KV_FORGETS). Stops at the first operation that fails or answers wrongly. */
int loop_run(struct loop *loop, struct plan *plan, uint64_t least, struct loop_phase *phases);

/* Runs rounds of those operations whose bit is set in `timed`, `burst` of each, and gets and updates
 * longer, until each was done `samples` times and for `least` nanoseconds; or, where the harness
 * takes longer than the operation, for LOOP_WALL times as long by the wall. Inserts go with removes:
 * LOOP_CHURN times as long for both together is enough, however fast one of them is.
 * phases[operation] is that of each. */
enum { LOOP_WALL = 4, LOOP_CHURN = 8 };
struct loop_rounds {
    struct plan_records *records;
    uint32_t timed, order;
    uint64_t burst, samples, least;
};
int loop_rounds(struct loop *loop, const struct loop_rounds *rounds, struct loop_phase *phases);

/* Runs `count` gets or updates of such rounds. */
int loop_burst(struct loop *loop, const struct loop_rounds *rounds, enum plan_operation operation,
               uint64_t count, struct loop_phase *phases);

/* Runs a plan whose operations the store must refuse: inserts of keys that exist; gets, updates and
 * removes of keys that do not. An operation that succeeds is a wrong answer, unless the store keeps
 * nothing (KV_FORGETS). Nothing is timed. */
int loop_refuse(struct loop *loop, struct plan *plan);

/* Scans the store: it must have the records of the plan (PLAN_ALL), in its order and with their
 * values, and no others. Backward, the plan is in descending order. Unless `phase` is NULL, every
 * value is copied, and its time is that from the end of the record before. Needs KV_SCAN. */
int loop_scan(struct loop *loop, struct plan *plan, struct loop_phase *phase);

/* Calls the store's `compact`; KV_ERROR if it has none. */
int loop_compact(struct loop *loop, struct loop_phase *phase);

/* The next operation of the plan with its key and value, for a loop that is written elsewhere: they
 * are in `key` and in loop->value. KV_NOT_FOUND when there is none. */
int loop_take(struct loop *loop, struct plan *plan, struct plan_item *item,
              unsigned char key[RECORDS_KEY_MAX], uint64_t *size);

/* Reads the clock twice, `count` times, with no operation between: the cost of timing itself.
 * nanoseconds[i] is the difference of pair i. */
void loop_clock(size_t count, uint64_t *nanoseconds);

#endif
