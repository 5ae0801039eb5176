#include "loop.h"
#include "clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many operations ahead a value is prefetched into the processor's cache, and how many bytes of
 * it: the processor prefetches the rest of a longer one itself. */
enum { AHEAD = 8, AHEAD_BYTES = 256, CACHE_LINE = 64, SECOND = 1000000000 };

static const char *const operation_name[] = {"insert", "get", "update", "remove", "scan"};
static const enum kv_mode write_mode[] = {
    [LOOP_INSERT] = KV_INSERT, [LOOP_UPDATE] = KV_UPDATE, [LOOP_REMOVE] = KV_REMOVE};

/* When an operation on `count` records is due in an open loop. Waits for it in a busy loop, since a
 * sleep ends too late, by half the time of a read. */
static uint64_t due(struct loop_pace *pace, uint64_t count)
{
    if (pace->start == 0)
        pace->start = now();
    uint64_t time = pace->start + pace->done / pace->rate * SECOND +
                    pace->done % pace->rate * SECOND / pace->rate;
    pace->done += count;
    while (now() < time)
        ;
    return time;
}

/* A plan begins, or ends. */
static void resume(struct loop_pace *pace)
{
    if (pace->start != 0)
        pace->start += now() - pace->left;
}

static void leave(struct loop_pace *pace)
{
    pace->left = now();
}

/* The start of an operation on `count` records. */
static inline uint64_t begin(struct loop *loop, uint64_t count)
{
    return loop->pace.rate == 0 ? now() : due(&loop->pace, count);
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

static struct kv_slice planned_value(const struct loop *loop, const struct loop_plan *plan,
                                     size_t i)
{
    return (struct kv_slice){loop->pool + plan->offset[i], plan->size[i]};
}

/* Values begin anywhere in the pool, so that the next one is seldom in the processor's cache.
 * Always inlined: GCC 12 removes a call of a function that does nothing but prefetch. */
__attribute__((always_inline)) static inline void call_ahead(const struct loop *loop,
                                                             const struct loop_plan *plan, size_t i)
{
    if (i + AHEAD >= plan->count)
        return;
    size_t size = plan->size[i + AHEAD];
    const unsigned char *value = loop->pool + plan->offset[i + AHEAD];
    const unsigned char *end = value + (size < AHEAD_BYTES ? size : AHEAD_BYTES);
    value -= (uintptr_t)value % CACHE_LINE;
    for (; value < end; value += CACHE_LINE)
        __builtin_prefetch(value);
}

int loop_load(struct loop *loop, const struct loop_plan *plan, size_t batch_records,
              size_t batch_bytes, uint64_t *nanoseconds, size_t *batches)
{
    struct kv_record *records = calloc(batch_records, sizeof *records);
    unsigned char (*keys)[RECORDS_KEY_SIZE] = calloc(batch_records, sizeof *keys);
    int status = KV_OK;
    *batches = 0;
    resume(&loop->pace);
    if (records == NULL || keys == NULL)
        status = KV_ERROR;
    for (size_t i = 0; i < plan->count && status == KV_OK;) {
        size_t count = 0;
        for (size_t bytes = 0; i < plan->count && count < batch_records; i++, count++) {
            if (count > 0 && bytes + plan->size[i] > batch_bytes)
                break;
            bytes += plan->size[i];
            call_ahead(loop, plan, i);
            records_key(plan->number[i], loop->stride, keys[count]);
            records[count].key = (struct kv_slice){keys[count], loop->key_size};
            records[count].value = planned_value(loop, plan, i);
        }
        uint64_t start = begin(loop, count);
        status = loop->driver->write(loop->kv, KV_PUT, records, count);
        nanoseconds[(*batches)++] = now() - start;
    }
    if (records == NULL || keys == NULL)
        snprintf(loop->error, sizeof loop->error, "out of memory");
    else if (status != KV_OK)
        failed(loop, status, "load");
    free(keys);
    free(records);
    leave(&loop->pace);
    return status;
}

/* Says which operation failed, in words that identify the record. */
static int failed_at(struct loop *loop, const struct loop_plan *plan, size_t i, int status)
{
    char what[128];
    snprintf(what, sizeof what, "%s of record %" PRIu64, operation_name[plan->operation[i]],
             plan->number[i]);
    return failed(loop, status, what);
}

/* Compares what was read of a record with what was written. */
static int compare(struct loop *loop, uint64_t number, struct kv_slice found,
                   struct kv_slice expected)
{
    if (found.size == expected.size && memcmp(found.data, expected.data, found.size) == 0)
        return KV_OK;
    const unsigned char *one = found.data, *other = expected.data;
    size_t same = 0;
    while (same < found.size && same < expected.size && one[same] == other[same])
        same++;
    snprintf(loop->error, sizeof loop->error,
             "wrong answer: get of record %" PRIu64
             ": %zu bytes where %zu were written, first difference at byte %zu",
             number, found.size, expected.size, same);
    return KV_ERROR;
}

/* Copies the value into the processor's cache, where a program has a value that it just made. Read
 * from the pool, a large value would make a write 10 % slower. */
static struct kv_slice fresh(struct loop *loop, struct kv_slice value)
{
    memcpy(loop->value, value.data, value.size);
    return (struct kv_slice){loop->value, value.size};
}

/* Changes the buffer, so that a get that copies nothing cannot pass with an earlier value. */
static void spoil(struct loop *loop, struct kv_slice expected)
{
    if (expected.size > 0 && expected.size <= loop->capacity) {
        const unsigned char *bytes = expected.data;
        loop->buffer[0] = (unsigned char)~bytes[0];
        loop->buffer[expected.size - 1] = (unsigned char)~bytes[expected.size - 1];
    }
}

/* A scan, and how far it came. */
struct scan {
    struct loop *loop;
    const struct loop_plan *plan;
    unsigned char limit[RECORDS_KEY_SIZE]; /* forwards, keys from here on are not the plan's */
    enum kv_direction direction;           /* backwards, keys before it */
    bool unlimited;                        /* all keys are the plan's */
    bool open_end;                         /* ends with the last of the plan, whatever follows */
    size_t seen;
    uint64_t *nanoseconds; /* NULL: nothing is timed, and nothing copied */
    uint64_t mark;         /* when the time of the next record began */
    int status;
};

static int absent(struct scan *scan)
{
    char what[64];
    snprintf(what, sizeof what, "scan: record %" PRIu64, scan->plan->number[scan->seen]);
    return failed(scan->loop, KV_NOT_FOUND, what);
}

static int too_many(struct scan *scan)
{
    return failed(scan->loop, KV_EXISTS, "scan: a record that was removed, or none of ours");
}

/* Less than, equal to or greater than 0 as the key is before, at or after the other. */
static int order(const struct loop *loop, struct kv_slice key,
                 const unsigned char other[RECORDS_KEY_SIZE])
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
    if (scan->nanoseconds == NULL || value.size > loop->capacity)
        return value;
    memcpy(loop->buffer, value.data, value.size);
    scan->nanoseconds[scan->seen] = now() - scan->mark;
    return (struct kv_slice){loop->buffer, value.size};
}

static int visit(void *context, struct kv_slice key, struct kv_slice value)
{
    struct scan *scan = context;
    const struct loop_plan *plan = scan->plan;
    unsigned char expected[RECORDS_KEY_SIZE];
    int past = order(scan->loop, key, scan->limit);
    if (scan->status != KV_OK) /* the engine goes on though it was told to stop */
        return 1;
    if (!scan->unlimited && (scan->direction == KV_BACKWARD ? past < 0 : past >= 0))
        return 1;
    if (scan->seen == plan->count) {
        scan->status = too_many(scan);
        return 1;
    }
    value = take(scan, value);
    records_key(plan->number[scan->seen], scan->loop->stride, expected);
    call_ahead(scan->loop, plan, scan->seen);
    int place = order(scan->loop, key, expected);
    if (place == 0)
        scan->status = compare(scan->loop, plan->number[scan->seen], value,
                               planned_value(scan->loop, plan, scan->seen));
    else
        scan->status =
            (place < 0) == (scan->direction == KV_FORWARD) ? too_many(scan) : absent(scan);
    scan->seen++;
    if (scan->nanoseconds != NULL)
        scan->mark = now();
    return scan->status != KV_OK || (scan->open_end && scan->seen == plan->count);
}

/* Runs a scan; the reason of a failure is in loop->error. */
static int scan_plan(struct scan *scan, struct kv_slice from)
{
    struct loop *loop = scan->loop;
    const struct kv_driver *driver = loop->driver;
    int status = driver->scan(loop->kv, from, scan->direction, visit, scan);
    if (scan->status != KV_OK) /* more specific than the engine's error after it */
        return scan->status;
    if (status != KV_OK)
        return failed(loop, status, "scan");
    return scan->seen < scan->plan->count ? absent(scan) : KV_OK;
}

/* A scan in a mix. The records that it must find follow from their numbers. */
static int read_some(struct loop *loop, const struct loop_plan *plan, size_t i, uint64_t *total)
{
    uint8_t operation[LOOP_SCAN_MAX] = {0};
    uint64_t number[LOOP_SCAN_MAX], nanoseconds[LOOP_SCAN_MAX];
    uint32_t offset[LOOP_SCAN_MAX], size[LOOP_SCAN_MAX];
    struct loop_plan expected = {plan->size[i], operation, number, offset, size};
    struct scan scan = {.loop = loop,
                        .plan = &expected,
                        .unlimited = true,
                        .open_end = true,
                        .status = KV_OK,
                        .nanoseconds = nanoseconds};
    unsigned char from[RECORDS_KEY_SIZE];
    if (expected.count > LOOP_SCAN_MAX)
        return failed(loop, KV_TOO_LARGE, "scan");
    for (size_t k = 0; k < expected.count; k++) {
        number[k] = plan->number[i] + k;
        records_value(&loop->values, number[k], plan->offset[i], &offset[k], &size[k]);
    }
    records_key(plan->number[i], loop->stride, from);
    scan.mark = begin(loop, 1);
    if (scan_plan(&scan, (struct kv_slice){from, loop->key_size}) != KV_OK)
        return KV_ERROR;
    *total = 0;
    for (size_t k = 0; k < scan.seen; k++)
        *total += nanoseconds[k];
    return KV_OK;
}

int loop_run(struct loop *loop, const struct loop_plan *plan, uint64_t *nanoseconds)
{
    const struct kv_driver *driver = loop->driver;
    struct kv *kv = loop->kv;
    int checked = (driver->capabilities & KV_FORGETS) == 0;
    resume(&loop->pace);
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char bytes[RECORDS_KEY_SIZE];
        call_ahead(loop, plan, i);
        records_key(plan->number[i], loop->stride, bytes);
        struct kv_record record = {{bytes, loop->key_size}, planned_value(loop, plan, i)};
        enum loop_operation operation = plan->operation[i];
        size_t size = 0;
        int status = KV_ERROR;
        uint64_t start = 0;
        switch (operation) {
        case LOOP_GET:
            spoil(loop, record.value);
            start = begin(loop, 1);
            status = driver->get(kv, record.key, loop->buffer, loop->capacity, &size);
            nanoseconds[i] = now() - start;
            break;
        case LOOP_INSERT:
        case LOOP_UPDATE:
            record.value = fresh(loop, record.value);
            __attribute__((fallthrough));
        case LOOP_REMOVE:
            start = begin(loop, 1);
            status = driver->write(kv, write_mode[operation], &record, 1);
            nanoseconds[i] = now() - start;
            break;
        case LOOP_SCAN:
            if (read_some(loop, plan, i, &nanoseconds[i]) != KV_OK)
                return KV_ERROR; /* it has said why */
            continue;
        }
        if (status != KV_OK)
            return failed_at(loop, plan, i, status);
        if (operation == LOOP_GET && checked &&
            compare(loop, plan->number[i], (struct kv_slice){loop->buffer, size}, record.value) !=
                KV_OK)
            return KV_ERROR;
    }
    leave(&loop->pace);
    return KV_OK;
}

/* Tries one operation that the store must refuse. */
static int refused(struct loop *loop, const struct loop_plan *plan, size_t i)
{
    const struct kv_driver *driver = loop->driver;
    enum loop_operation operation = plan->operation[i];
    unsigned char bytes[RECORDS_KEY_SIZE];
    struct kv_record record = {{bytes, loop->key_size}, planned_value(loop, plan, i)};
    size_t size = 0;
    int status, refusal = operation == LOOP_INSERT ? KV_EXISTS : KV_NOT_FOUND;
    if (operation == LOOP_SCAN)
        return KV_OK; /* it finds what there is */
    records_key(plan->number[i], loop->stride, bytes);
    if (operation == LOOP_GET)
        status = driver->get(loop->kv, record.key, loop->buffer, loop->capacity, &size);
    else
        status = driver->write(loop->kv, write_mode[operation], &record, 1);
    if (status == refusal)
        return KV_OK;
    if (status != KV_OK)
        return failed_at(loop, plan, i, status);
    snprintf(loop->error, sizeof loop->error,
             "wrong answer: %s of record %" PRIu64 ": done, though its key %s",
             operation_name[plan->operation[i]], plan->number[i],
             refusal == KV_EXISTS ? "exists" : "does not exist");
    return KV_ERROR;
}

int loop_refuse(struct loop *loop, const struct loop_plan *plan)
{
    int status = KV_OK;
    if (loop->driver->capabilities & KV_FORGETS)
        return KV_OK;
    for (size_t i = 0; i < plan->count && status == KV_OK; i++)
        status = refused(loop, plan, i);
    return status;
}

int loop_check(struct loop *loop, const struct loop_plan *plan, uint64_t first, uint64_t end)
{
    struct scan scan = {.loop = loop, .plan = plan, .unlimited = end == LOOP_END, .status = KV_OK};
    unsigned char from[RECORDS_KEY_SIZE];
    records_key(first, loop->stride, from);
    records_key(end, loop->stride, scan.limit);
    return scan_plan(&scan, (struct kv_slice){from, first == 0 ? 0 : loop->key_size});
}

int loop_scan(struct loop *loop, const struct loop_plan *plan, uint64_t first, uint64_t end,
              enum kv_direction direction, uint64_t *nanoseconds)
{
    struct scan scan = {.loop = loop,
                        .plan = plan,
                        .direction = direction,
                        .status = KV_OK,
                        .nanoseconds = nanoseconds};
    unsigned char from[RECORDS_KEY_SIZE];
    bool backwards = direction == KV_BACKWARD;
    records_key(backwards ? end - 1 : first, loop->stride, from);
    records_key(backwards ? first : end, loop->stride, scan.limit);
    scan.mark = now();
    return scan_plan(&scan, (struct kv_slice){from, loop->key_size});
}

int loop_compact(struct loop *loop)
{
    if (loop->driver->compact == NULL) {
        snprintf(loop->error, sizeof loop->error, "compact: the store has no such call");
        return KV_ERROR;
    }
    int status = loop->driver->compact(loop->kv);
    return status == KV_OK ? KV_OK : failed(loop, status, "compact");
}

void loop_clock(size_t count, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t start = now();
        nanoseconds[i] = now() - start;
    }
}
