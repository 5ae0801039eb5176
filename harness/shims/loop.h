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
    uint64_t exponential; /* whether gaps are exponential; otherwise they are constant */
    uint64_t random;      /* state for the next gap */
    uint64_t start, due;  /* when the first and the last operation were due; 0 before the first */
    double elapsed;       /* ns from the due time of the first operation to that of the next */
    uint64_t waited;      /* ns in which the loop only waited for an operation to be due */
    /* The lateness of operations that were due after the previous one had ended, without the last
     * such operation, whose `lateness` is still pending. */
    struct tally late;
    uint64_t lateness, idle;
};

/* The time and resources of operations of one kind. Their wall time begins at the end of the
 * operation before them. `paused` is the part of it in gaps of more than LOOP_PAUSE between two
 * operations, in which an engine is idle or catches up. */
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
    uint64_t longest; /* ns after which a run ends before its plan does; 0: never */
    struct meter meter;
    uint64_t *times; /* receives the time at which each operation returned, at once; or NULL */
    /* Internal: when the last operation ended, when the phase began, and the counters then. */
    uint64_t ended, entered;
    struct meter_counts mark;
    char error[768];
};

/* Opens the store in the folder `path`. Fails if the store cannot hold keys or values of these
 * sizes. The caller sets every field except kv and error. */
int loop_open(struct loop *loop, const char *path, const struct kv_option *options, size_t count);
int loop_close(struct loop *loop);

/* loop_enter begins a phase: it reads the counters, and starts the phase's timeline if it has one.
 * loop_leave adds what was counted since then to `used` and `wall`, which ends at loop->ended. */
void loop_enter(struct loop *loop, struct loop_phase *phase);
void loop_leave(struct loop *loop, struct loop_phase *phase);

/* Writes the plan's records in batches of at most `batch_records` records. A batch has no more
 * records than would fit into `room` if each had the largest size. */
int loop_load(struct loop *loop, struct plan *plan, size_t batch_records, struct loop_phase *phase);

/* Runs the plan, one operation after the other, until it is done. Unless `least` is 0, a plan of
 * drawn records continues until that many nanoseconds have passed, and in an open loop until all
 * operations due by then are done. phases[PLAN_OPERATIONS] is the phase of all operations; the
 * others have the tally of each kind. Each value read is checked outside the timed part, unless the
 * store keeps nothing (KV_FORGETS). Stops at the first operation that fails or answers wrongly. */
int loop_run(struct loop *loop, struct plan *plan, uint64_t least, struct loop_phase *phases);

/* Runs rounds of the operations whose bit is set in `timed`, on `burst` records each; gets and
 * updates may run longer. With `batch`, an update stores that many distinct records in one call,
 * whether they exist or not. It ends when each operation had `samples` records and took `least`
 * nanoseconds. For an operation that is faster than the harness, LOOP_WALL times `least` of wall
 * time suffices. Inserts and removes run together, and LOOP_CHURN times `least` of wall time for
 * both suffices. phases[operation] is the phase of each operation. */
enum { LOOP_WALL = 4, LOOP_CHURN = 8 };
struct loop_rounds {
    struct plan_records *records;
    uint32_t timed, order;
    uint64_t burst, samples, least, batch;
};
int loop_rounds(struct loop *loop, const struct loop_rounds *rounds, struct loop_phase *phases);

/* Runs `count` gets or updates as loop_rounds does. */
int loop_burst(struct loop *loop, const struct loop_rounds *rounds, enum plan_operation operation,
               uint64_t count, struct loop_phase *phases);

/* Runs a plan whose operations the store must refuse: inserts of keys that exist; gets, updates and
 * removes of keys that do not. An operation that succeeds is a wrong answer, unless the store keeps
 * nothing (KV_FORGETS). Nothing is timed. */
int loop_refuse(struct loop *loop, struct plan *plan);

/* Scans the store, which must hold exactly the records of the plan (PLAN_ALL), in its order and
 * with their values. If the plan is backward, the order is descending. Unless `phase` is NULL,
 * every value is copied, and the time of a record runs from the end of the previous record. Needs
 * KV_SCAN. */
int loop_scan(struct loop *loop, struct plan *plan, struct loop_phase *phase);

/* Calls the store's `compact`; KV_ERROR if it has none. */
int loop_compact(struct loop *loop, struct loop_phase *phase);

/* The next operation of the plan, for a loop outside this library. Its key is written to `key`, its
 * value to loop->value. Returns KV_NOT_FOUND if there is none. */
int loop_take(struct loop *loop, struct plan *plan, struct plan_item *item,
              unsigned char key[RECORDS_KEY_MAX], uint64_t *size);

/* Reads the clock twice, `count` times, with no operation between: the cost of timing itself.
 * nanoseconds[i] is the difference of pair i. */
void loop_clock(size_t count, uint64_t *nanoseconds);

#endif
