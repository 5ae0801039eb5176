#include "loop.h"
#include "clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many operations are planned at once, which takes less than LOOP_PAUSE. Meanwhile their values
 * are prefetched into the processor's cache, so many bytes of each: the processor prefetches the
 * rest of a longer one itself. */
enum { AHEAD = 16, AHEAD_BYTES = 256, CACHE_LINE = 64, SECOND = 1000000000 };

static const char *const operation_name[] = {"insert", "get", "update", "remove", "scan"};
static const enum kv_mode write_mode[] = {
    [PLAN_INSERT] = KV_INSERT, [PLAN_UPDATE] = KV_UPDATE, [PLAN_REMOVE] = KV_REMOVE};

/* The next gap between two operations, as a multiple of the mean one. */
static double gap(struct loop_pace *pace)
{
    double share = (double)(records_mix(pace->random) >> 11) * 0x1p-53; /* 0 to below 1 */
    pace->random++;
    return pace->exponential ? -log(1 - share) : 1;
}

/* Waits until an operation on `count` records is due, and returns when that was. Waits in a busy
 * loop, since a sleep ends too late, by half the time of a read. How late the operation before began
 * is counted only now: between waiting and beginning it would be in the way. */
static uint64_t due(struct loop *loop, uint64_t count)
{
    struct loop_pace *pace = &loop->pace;
    if (pace->idle)
        tally_add(&pace->late, loop->ended, pace->lateness);
    uint64_t came = now(), time = came;
    if (pace->start == 0)
        pace->start = came;
    pace->due = pace->start + (uint64_t)pace->elapsed;
    pace->elapsed += gap(pace) * (double)count * SECOND / (double)pace->rate;
    while (time < pace->due)
        time = now();
    pace->waited += time - came;
    pace->idle = loop->ended < pace->due;
    pace->lateness = time - pace->due;
    return pace->due;
}

/* The start of an operation on `count` records. */
static inline uint64_t begin(struct loop *loop, uint64_t count)
{
    return loop->pace.rate == 0 ? now() : due(loop, count);
}

/* The end of an operation that began at `start`, and of the gap before it; in an open loop a gap is
 * a wait that the rate asks for. Returns the time of the operation. */
static inline uint64_t end(struct loop *loop, struct loop_phase *phase, uint64_t start)
{
    uint64_t stop = now();
    if (loop->pace.rate == 0 && loop->ended != 0 && start - loop->ended > LOOP_PAUSE)
        phase->paused += start - loop->ended;
    loop->ended = stop;
    return stop - start;
}

void loop_enter(struct loop *loop, struct loop_phase *phase)
{
    meter_read(&loop->meter, &loop->mark);
    loop->entered = loop->ended = now();
    tally_begin(&phase->tally, loop->entered);
}

void loop_leave(struct loop *loop, struct loop_phase *phase)
{
    struct meter_counts counts;
    meter_read(&loop->meter, &counts);
    uint64_t *used = (uint64_t *)&phase->used;
    const uint64_t *last = (const uint64_t *)&counts, *first = (const uint64_t *)&loop->mark;
    for (size_t i = 0; i < sizeof counts / sizeof *used; i++)
        used[i] += last[i] - first[i];
    phase->wall += loop->ended - loop->entered;
    loop->mark = counts;
    loop->entered = loop->ended;
    tally_end(&phase->tally);
}

static int failed(struct loop *loop, int status, const char *what)
{
    char unknown[32];
    snprintf(loop->error, sizeof loop->error, "%s: %s", what,
             store_reason(loop->driver, status, unknown));
    return KV_ERROR;
}

int loop_open(struct loop *loop, const char *path, const struct kv_option *options, size_t count)
{
    char error[STORE_ERROR];
    if (!store_holds(loop->driver, loop->key_size, loop->capacity)) {
        snprintf(loop->error, sizeof loop->error,
                 "open: keys of %zu bytes and values of %zu; the store holds at most %" PRIu64
                 " and %" PRIu64,
                 loop->key_size, loop->capacity, loop->driver->max_key, loop->driver->max_value);
        return KV_ERROR;
    }
    if (store_open(loop->driver, path, options, count, &loop->kv, error) == KV_OK)
        return KV_OK;
    snprintf(loop->error, sizeof loop->error, "open: %s", error);
    return KV_ERROR;
}

int loop_close(struct loop *loop)
{
    int status = loop->driver->close(loop->kv);
    return status == KV_OK ? KV_OK : failed(loop, status, "close");
}

/* Values begin anywhere in the pool, so that the next one is seldom in the processor's cache.
 * Always inlined: GCC 12 removes a call of a function that does nothing but prefetch. */
__attribute__((always_inline)) static inline void call_ahead(const struct loop *loop,
                                                             const struct plan_item *item)
{
    uint64_t offset;
    uint32_t size;
    records_slice(&loop->values, item->number, item->version, &offset, &size);
    const unsigned char *value = loop->values.pool + offset;
    const unsigned char *last = value + (size < AHEAD_BYTES ? size : AHEAD_BYTES);
    value -= (uintptr_t)value % CACHE_LINE;
    for (; value < last; value += CACHE_LINE)
        __builtin_prefetch(value);
}

/* A batch that is being made: what was planned and not yet written. */
struct batch {
    struct kv_record *records;
    unsigned char *keys;
    struct plan_item *items;
    size_t planned;
};

/* A record that was drawn again is written once, in its last version. */
static bool is_again(struct batch *batch, const struct plan *plan)
{
    const struct plan_item *last = &batch->items[batch->planned];
    if (plan->source != PLAN_DRAWN)
        return false;
    for (size_t i = 0; i < batch->planned; i++) {
        if (batch->items[i].number == last->number) {
            batch->items[i].version = last->version;
            return true;
        }
    }
    return false;
}

/* Makes the records of a batch, of `most` at most; returns their number. */
static size_t fill_batch(struct loop *loop, struct plan *plan, struct batch *batch, size_t most)
{
    size_t count = 0, used = 0;
    while (batch->planned < most && plan_next(plan, &batch->items[batch->planned]))
        if (!is_again(batch, plan))
            call_ahead(loop, &batch->items[batch->planned++]);
    for (; count < batch->planned; count++) {
        const struct plan_item *item = &batch->items[count];
        if (used + loop->capacity > loop->room)
            break;
        size_t size = records_value(&loop->values, item->number, item->version, loop->value + used);
        unsigned char *key = batch->keys + count * records_key_room(loop->key_size);
        records_key(item->number, loop->stride, loop->key_size, key);
        batch->records[count].key = (struct kv_slice){key, loop->key_size};
        batch->records[count].value = (struct kv_slice){loop->value + used, size};
        used += size;
    }
    batch->planned -= count;
    memmove(batch->items, batch->items + count, batch->planned * sizeof *batch->items);
    return count;
}

/* Writes the plan's records in batches, `most` of them at most. */
static int write_batches(struct loop *loop, struct plan *plan, size_t batch_records, uint64_t most,
                         struct loop_phase *phase)
{
    struct batch batch = {.records = calloc(batch_records, sizeof *batch.records),
                          .keys = calloc(batch_records, records_key_room(loop->key_size)),
                          .items = calloc(batch_records, sizeof *batch.items)};
    bool memory = batch.records != NULL && batch.keys != NULL && batch.items != NULL;
    int status = memory ? KV_OK : KV_ERROR;
    for (uint64_t i = 0; i < most && status == KV_OK; i++) {
        size_t count = fill_batch(loop, plan, &batch, batch_records);
        if (count == 0)
            break;
        uint64_t start = begin(loop, count);
        status = loop->driver->write(loop->kv, KV_PUT, batch.records, count);
        uint64_t time = end(loop, phase, start);
        tally_add(&phase->tally, loop->ended, time);
        phase->items += count;
    }
    if (!memory)
        snprintf(loop->error, sizeof loop->error, "out of memory");
    else if (status != KV_OK)
        failed(loop, status, "load");
    free(batch.items);
    free(batch.keys);
    free(batch.records);
    return status;
}

int loop_load(struct loop *loop, struct plan *plan, size_t batch_records, struct loop_phase *phase)
{
    loop_enter(loop, phase);
    int status = write_batches(loop, plan, batch_records, UINT64_MAX, phase);
    loop_leave(loop, phase);
    return status;
}

/* Says which operation failed, in words that identify the record. */
static int failed_at(struct loop *loop, const struct plan_item *item, int status)
{
    char what[128];
    snprintf(what, sizeof what, "%s of record %" PRIu64, operation_name[item->operation],
             item->number);
    return failed(loop, status, what);
}

/* Checks what was read of a record against what was written. */
static int compare(struct loop *loop, const struct plan_item *item, struct kv_slice found)
{
    if (records_is_value(&loop->values, item->number, item->version, found.data, found.size))
        return KV_OK;
    const unsigned char *one = found.data, *other = loop->value;
    size_t size = records_value(&loop->values, item->number, item->version, loop->value), same = 0;
    while (same < found.size && same < size && one[same] == other[same])
        same++;
    snprintf(loop->error, sizeof loop->error,
             "wrong answer: get of record %" PRIu64
             ": %zu bytes where %zu were written, first difference at byte %zu",
             item->number, found.size, size, same);
    return KV_ERROR;
}

/* Changes the buffer, so that a get that copies nothing cannot pass with an earlier value. */
static void spoil(struct loop *loop, const struct plan_item *item)
{
    size_t size = records_size(&loop->values, item->number, item->version);
    if (size > 0 && size <= loop->capacity)
        loop->buffer[size - 1] ^= 0xff;
}

/* A scan, and how far it came. */
struct scan {
    struct loop *loop;
    struct plan *plan;     /* what it must find; NULL: */
    struct plan_item item; /* the record that is expected, and as many as its length */
    bool whole;            /* of the store: no record may follow */
    bool expects;          /* one more record */
    bool backward;
    struct loop_phase *phase; /* NULL: nothing is timed, and nothing copied */
    uint64_t mark;            /* when the time of the next record began */
    uint64_t total, seen;     /* nanoseconds of all records, and their number */
    int status;
};

static void expect_next(struct scan *scan)
{
    if (scan->plan != NULL) {
        scan->expects = plan_next(scan->plan, &scan->item);
        return;
    }
    scan->item.number++;
    scan->expects = --scan->item.length > 0;
}

static int absent(struct scan *scan)
{
    char what[64];
    snprintf(what, sizeof what, "scan: record %" PRIu64, scan->item.number);
    return failed(scan->loop, KV_NOT_FOUND, what);
}

static int too_many(struct scan *scan)
{
    return failed(scan->loop, KV_EXISTS, "scan: a record that was removed, or none of ours");
}

/* Less than, equal to or greater than 0 as the key is before, at or after the other. */
static int order(const struct loop *loop, struct kv_slice key, const unsigned char *other)
{
    size_t size = key.size < loop->key_size ? key.size : loop->key_size;
    int found = memcmp(key.data, other, size);
    if (found != 0 || key.size == loop->key_size)
        return found;
    return key.size < loop->key_size ? -1 : 1;
}

/* The value as get would leave it, with the time until then. */
static struct kv_slice take(struct scan *scan, struct kv_slice value)
{
    struct loop *loop = scan->loop;
    if (scan->phase == NULL || value.size > loop->capacity)
        return value;
    memcpy(loop->buffer, value.data, value.size);
    uint64_t time = end(loop, scan->phase, scan->mark);
    if (scan->whole)
        tally_add(&scan->phase->tally, loop->ended, time);
    scan->total += time;
    return (struct kv_slice){loop->buffer, value.size};
}

static int visit(void *context, struct kv_slice key, struct kv_slice value)
{
    struct scan *scan = context;
    unsigned char expected[RECORDS_KEY_MAX];
    if (scan->status != KV_OK) /* the engine goes on though it was told to stop */
        return 1;
    if (!scan->expects) {
        scan->status = too_many(scan);
        return 1;
    }
    value = take(scan, value);
    records_key(scan->item.number, scan->loop->stride, scan->loop->key_size, expected);
    int place = order(scan->loop, key, expected);
    if (place == 0)
        scan->status = compare(scan->loop, &scan->item, value);
    else
        scan->status = (place < 0) != scan->backward ? too_many(scan) : absent(scan);
    scan->seen++;
    expect_next(scan);
    if (scan->phase != NULL)
        scan->mark = now();
    return scan->status != KV_OK || (!scan->whole && !scan->expects);
}

/* Runs a scan from a key; the reason of a failure is in loop->error. */
static int run_scan(struct scan *scan, struct kv_slice from)
{
    struct loop *loop = scan->loop;
    enum kv_direction direction = scan->backward ? KV_BACKWARD : KV_FORWARD;
    int status = loop->driver->scan(loop->kv, from, direction, visit, scan);
    if (scan->status != KV_OK) /* more specific than the engine's error after it */
        return scan->status;
    if (status != KV_OK)
        return failed(loop, status, "scan");
    return scan->expects ? absent(scan) : KV_OK;
}

int loop_scan(struct loop *loop, struct plan *plan, struct loop_phase *phase)
{
    struct scan scan = {
        .loop = loop, .plan = plan, .whole = true, .backward = plan->backward, .phase = phase};
    unsigned char last[RECORDS_KEY_MAX];
    memset(last, 0xff, sizeof last); /* an empty key is the first one */
    if (phase != NULL)
        loop_enter(loop, phase);
    expect_next(&scan);
    scan.mark = now();
    int status = run_scan(&scan, (struct kv_slice){last, scan.backward ? loop->key_size : 0});
    if (phase != NULL) {
        loop_leave(loop, phase);
        phase->items += scan.seen;
    }
    return status;
}

/* A scan among the operations of a plan. In a mix, `records` may be ahead of the store, so there the
 * item alone tells what the scan must find. */
static int read_some(struct loop *loop, const struct plan *plan, const struct plan_item *item,
                     struct loop_phase *phase, uint64_t *total)
{
    struct plan range = {.records = plan->records,
                         .source = PLAN_ALL,
                         .operation = PLAN_GET,
                         .at = item->number,
                         .end = plan->records->born,
                         .left = item->length};
    struct scan scan = {.loop = loop, .item = *item, .expects = true, .phase = phase};
    unsigned char from[RECORDS_KEY_MAX];
    records_key(item->number, loop->stride, loop->key_size, from);
    scan.item.version = 0;
    if (plan->source != PLAN_MIXED) {
        scan.plan = &range;
        expect_next(&scan);
    }
    scan.mark = begin(loop, 1);
    int status = run_scan(&scan, (struct kv_slice){from, loop->key_size});
    *total = scan.total;
    return status;
}

/* One operation. Its tally goes to its kind, the gap before it to the whole. */
static int run_one(struct loop *loop, const struct plan *plan, const struct plan_item *item,
                   struct loop_phase *kind, struct loop_phase *whole)
{
    const struct kv_driver *driver = loop->driver;
    unsigned char bytes[RECORDS_KEY_MAX];
    struct kv_record record = {{bytes, loop->key_size}, {loop->value, 0}};
    uint64_t start, time;
    size_t size = 0;
    int status;
    records_key(item->number, loop->stride, loop->key_size, bytes);
    if (item->operation == PLAN_SCAN) {
        if (read_some(loop, plan, item, whole, &time) != KV_OK)
            return KV_ERROR;
    } else if (item->operation == PLAN_GET) {
        spoil(loop, item);
        start = begin(loop, 1);
        status = driver->get(loop->kv, record.key, loop->buffer, loop->capacity, &size);
        time = end(loop, whole, start);
        if (status != KV_OK)
            return failed_at(loop, item, status);
    } else {
        if (item->operation != PLAN_REMOVE)
            record.value.size =
                records_value(&loop->values, item->number, item->version, loop->value);
        start = begin(loop, 1);
        status = driver->write(loop->kv, write_mode[item->operation], &record, 1);
        time = end(loop, whole, start);
        if (status != KV_OK)
            return failed_at(loop, item, status);
    }
    tally_add(&kind->tally, loop->ended, time);
    kind->items++;
    if (loop->times != NULL)
        *loop->times++ = loop->ended;
    bool checked = item->operation == PLAN_GET && (driver->capabilities & KV_FORGETS) == 0;
    return checked ? compare(loop, item, (struct kv_slice){loop->buffer, size}) : KV_OK;
}

/* Runs what is left of a plan, but no longer than a run may take. */
static int run(struct loop *loop, struct plan *plan, struct loop_phase *kinds,
               struct loop_phase *whole)
{
    struct plan_item items[AHEAD];
    for (;;) {
        size_t count = 0;
        for (; count < AHEAD && plan_next(plan, &items[count]); count++)
            if (items[count].operation == PLAN_INSERT || items[count].operation == PLAN_UPDATE)
                call_ahead(loop, &items[count]);
        if (count == 0)
            return KV_OK;
        for (size_t i = 0; i < count; i++) {
            int status = run_one(loop, plan, &items[i], &kinds[items[i].operation], whole);
            if (status != KV_OK)
                return status;
        }
        if (loop->longest > 0 && loop->ended - loop->entered >= loop->longest)
            return KV_OK;
    }
}

/* Whether a run goes on: a closed loop until `time`, an open one until all that is due by then is
 * done, however late. */
static bool goes_on(const struct loop *loop, uint64_t time)
{
    return (loop->pace.rate == 0 ? loop->ended : loop->pace.due) < time;
}

int loop_run(struct loop *loop, struct plan *plan, uint64_t least, struct loop_phase *phases)
{
    struct loop_phase *whole = &phases[PLAN_OPERATIONS];
    loop_enter(loop, whole);
    int status = run(loop, plan, phases, whole);
    while (status == KV_OK && least > 0 && goes_on(loop, loop->entered + least)) {
        plan->left = AHEAD;
        status = run(loop, plan, phases, whole);
    }
    loop_leave(loop, whole);
    for (int i = 0; i < PLAN_OPERATIONS; i++) {
        tally_merge(&whole->tally, &phases[i].tally);
        whole->items += phases[i].items;
    }
    return status;
}

static int burst(struct loop *loop, const struct loop_rounds *rounds, enum plan_operation operation,
                 uint64_t count, struct loop_phase *phases)
{
    struct plan plan = {.records = rounds->records,
                        .source = operation == PLAN_INSERT ? PLAN_DEAD_ONES : PLAN_DRAWN,
                        .operation = operation,
                        .order = rounds->order,
                        .left = count};
    bool batches = operation == PLAN_UPDATE && rounds->batch > 0;
    if (operation == PLAN_REMOVE && rounds->order == PLAN_ZIPFIAN)
        plan.order = PLAN_UNIFORM; /* a record is removed but once */
    if (batches)
        plan.left = UINT64_MAX; /* some are drawn again */
    plan_begin(&plan);
    if (batches)
        return write_batches(loop, &plan, rounds->batch, count / rounds->batch, &phases[operation]);
    return run(loop, &plan, phases, &phases[operation]);
}

int loop_burst(struct loop *loop, const struct loop_rounds *rounds, enum plan_operation operation,
               uint64_t count, struct loop_phase *phases)
{
    loop_enter(loop, &phases[operation]);
    int status = burst(loop, rounds, operation, count, phases);
    loop_leave(loop, &phases[operation]);
    return status;
}

static bool lacks(const struct loop_rounds *rounds, const struct loop_phase *phases,
                  enum plan_operation operation)
{
    bool churn = operation == PLAN_INSERT || operation == PLAN_REMOVE;
    const struct loop_phase *phase = &phases[operation];
    uint64_t both = phases[PLAN_INSERT].wall + phases[PLAN_REMOVE].wall;
    bool enough = phase->tally.sum >= rounds->least || phase->wall >= rounds->least * LOOP_WALL ||
                  (churn && both >= rounds->least * LOOP_CHURN);
    return (rounds->timed >> operation & 1) != 0 && (phase->items < rounds->samples || !enough);
}

/* A burst of one operation within rounds; gets and updates go on for their share of the time. */
static int round_of(struct loop *loop, const struct loop_rounds *rounds,
                    enum plan_operation operation, struct loop_phase *phases)
{
    struct loop_phase *phase = &phases[operation];
    bool churns = operation == PLAN_INSERT || operation == PLAN_REMOVE;
    uint64_t before = phase->tally.sum, share = rounds->least * rounds->burst / rounds->samples;
    int status = KV_OK;
    do
        status = burst(loop, rounds, operation, rounds->burst, phases);
    while (status == KV_OK && !churns && phase->tally.sum - before < share);
    loop_leave(loop, phase);
    return status;
}

int loop_rounds(struct loop *loop, const struct loop_rounds *rounds, struct loop_phase *phases)
{
    static const enum plan_operation order[] = {PLAN_INSERT, PLAN_GET, PLAN_UPDATE, PLAN_REMOVE};
    int status = KV_OK;
    bool more = true;
    loop_enter(loop, phases);
    while (more && status == KV_OK) {
        bool churns = lacks(rounds, phases, PLAN_INSERT) || lacks(rounds, phases, PLAN_REMOVE);
        more = false;
        for (int i = 0; i < 4 && status == KV_OK; i++) {
            bool churn = order[i] == PLAN_INSERT || order[i] == PLAN_REMOVE;
            if (churn ? !churns : !lacks(rounds, phases, order[i]))
                continue;
            status = round_of(loop, rounds, order[i], phases);
            more = true;
        }
    }
    return status;
}

/* Tries one operation that the store must refuse, so its value is a short one. */
static int refused(struct loop *loop, const struct plan_item *item)
{
    const struct kv_driver *driver = loop->driver;
    unsigned char bytes[RECORDS_KEY_MAX];
    struct kv_record record = {{bytes, loop->key_size}, {bytes, 1}};
    int status, refusal = item->operation == PLAN_INSERT ? KV_EXISTS : KV_NOT_FOUND;
    size_t size = 0;
    records_key(item->number, loop->stride, loop->key_size, bytes);
    if (item->operation == PLAN_GET)
        status = driver->get(loop->kv, record.key, loop->buffer, loop->capacity, &size);
    else
        status = driver->write(loop->kv, write_mode[item->operation], &record, 1);
    if (status == refusal)
        return KV_OK;
    if (status != KV_OK)
        return failed_at(loop, item, status);
    snprintf(loop->error, sizeof loop->error,
             "wrong answer: %s of record %" PRIu64 ": done, though its key %s",
             operation_name[item->operation], item->number,
             refusal == KV_EXISTS ? "exists" : "does not exist");
    return KV_ERROR;
}

int loop_refuse(struct loop *loop, struct plan *plan)
{
    struct plan_item item;
    int status = KV_OK;
    if (loop->driver->capabilities & KV_FORGETS)
        return KV_OK;
    while (status == KV_OK && plan_next(plan, &item))
        status = refused(loop, &item);
    return status;
}

int loop_compact(struct loop *loop, struct loop_phase *phase)
{
    if (loop->driver->compact == NULL) {
        snprintf(loop->error, sizeof loop->error, "compact: the store has no such call");
        return KV_ERROR;
    }
    loop_enter(loop, phase);
    uint64_t start = now();
    int status = loop->driver->compact(loop->kv);
    uint64_t time = end(loop, phase, start);
    tally_add(&phase->tally, loop->ended, time);
    loop_leave(loop, phase);
    return status == KV_OK ? KV_OK : failed(loop, status, "compact");
}

int loop_take(struct loop *loop, struct plan *plan, struct plan_item *item,
              unsigned char key[RECORDS_KEY_MAX], uint64_t *size)
{
    if (!plan_next(plan, item))
        return KV_NOT_FOUND;
    records_key(item->number, loop->stride, loop->key_size, key);
    *size = records_value(&loop->values, item->number, item->version, loop->value);
    return KV_OK;
}

void loop_clock(size_t count, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t start = now();
        nanoseconds[i] = now() - start;
    }
}
