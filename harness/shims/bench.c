#include "bench.h"
#include "clock.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How many operations ahead a value is called into the processor's cache, and how many bytes of
 * it: the processor itself sees a longer one coming. */
enum { AHEAD = 8, AHEAD_BYTES = 256, CACHE_LINE = 64 };

static const char *const operation_name[] = {"insert", "get", "update", "remove", "scan"};

/* Where the time of an operation in an open loop begins: when it is due, however late that is
 * noticed. Waits for it on the processor, since a sleep ends too late by half of a read. */
static uint64_t due(struct bench_pace *pace)
{
    pace->intended = pace->intended == 0 ? now() : pace->intended + pace->interval;
    while (now() < pace->intended)
        ;
    return pace->intended;
}

/* A plan begins, or ends. */
static void resume(struct bench_pace *pace)
{
    if (pace->intended != 0)
        pace->intended += now() - pace->left;
}

static void leave(struct bench_pace *pace)
{
    pace->left = now();
}

static inline uint64_t begin(struct bench *bench)
{
    return bench->pace.interval == 0 ? now() : due(&bench->pace);
}

const struct kv_driver *bench_driver(const char *path, char *error, size_t capacity)
{
    /* Local symbols: forks of one engine use the same names. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct kv_driver *driver = library == NULL ? NULL : dlsym(library, "kv_driver");
    if (driver == NULL) {
        snprintf(error, capacity, "%s", dlerror());
        return NULL;
    }
    if (driver->abi != KV_ABI) {
        snprintf(error, capacity, "built for ABI %" PRIu32 ", the harness has %d", driver->abi,
                 KV_ABI);
        return NULL;
    }
    return driver;
}

const char *bench_reason(const struct kv_driver *driver, int status, char undefined[32])
{
    static const char *const reason[] = {
        [KV_NOT_FOUND] = "key not found",
        [KV_EXISTS] = "key exists",
        [KV_TOO_LARGE] = "key or value too large",
    };
    if (status >= KV_NOT_FOUND && status < KV_ERROR)
        return reason[status];
    if (status != KV_ERROR) {
        snprintf(undefined, 32, "undefined status %d", status);
        return undefined;
    }
    const char *why = driver->error();
    return why == NULL ? "an error without a reason" : why;
}

static int failed(struct bench *bench, int status, const char *what)
{
    char undefined[32];
    snprintf(bench->error, sizeof bench->error, "%s: %s", what,
             bench_reason(bench->driver, status, undefined));
    return KV_ERROR;
}

int bench_open(struct bench *bench, const char *path, const struct kv_option *options,
               size_t count)
{
    int status = bench->driver->open(path, options, count, &bench->kv);
    return status == KV_OK ? KV_OK : failed(bench, status, "open");
}

int bench_close(struct bench *bench)
{
    int status = bench->driver->close(bench->kv);
    return status == KV_OK ? KV_OK : failed(bench, status, "close");
}

static struct kv_slice planned_value(const struct bench *bench, const struct bench_plan *plan,
                                     size_t i)
{
    return (struct kv_slice){bench->pool + plan->offset[i], plan->size[i]};
}

/* Values begin anywhere in the pool, so that the next one is seldom in the processor's cache.
 * Always inlined: GCC 12 removes a call of a function that does nothing but prefetch. */
__attribute__((always_inline)) static inline void
call_ahead(const struct bench *bench, const struct bench_plan *plan, size_t i)
{
    if (i + AHEAD >= plan->count)
        return;
    size_t size = plan->size[i + AHEAD];
    const unsigned char *value = bench->pool + plan->offset[i + AHEAD];
    const unsigned char *end = value + (size < AHEAD_BYTES ? size : AHEAD_BYTES);
    value -= (uintptr_t)value % CACHE_LINE;
    for (; value < end; value += CACHE_LINE)
        __builtin_prefetch(value);
}

int bench_load(struct bench *bench, const struct bench_plan *plan, size_t batch_records,
               size_t batch_bytes, uint64_t *nanoseconds, size_t *batches)
{
    struct kv_record *records = calloc(batch_records, sizeof *records);
    unsigned char(*keys)[RECORDS_KEY_SIZE] = calloc(batch_records, sizeof *keys);
    int status = KV_OK;
    *batches = 0;
    resume(&bench->pace);
    if (records == NULL || keys == NULL)
        status = KV_ERROR;
    for (size_t i = 0; i < plan->count && status == KV_OK;) {
        size_t count = 0;
        for (size_t bytes = 0; i < plan->count && count < batch_records; i++, count++) {
            if (count > 0 && bytes + plan->size[i] > batch_bytes)
                break;
            bytes += plan->size[i];
            call_ahead(bench, plan, i);
            records_key(plan->number[i], bench->stride, keys[count]);
            records[count].key = (struct kv_slice){keys[count], bench->key_size};
            records[count].value = planned_value(bench, plan, i);
        }
        uint64_t start = begin(bench);
        status = bench->driver->write_batch(bench->kv, records, count);
        nanoseconds[(*batches)++] = now() - start;
    }
    if (records == NULL || keys == NULL)
        snprintf(bench->error, sizeof bench->error, "out of memory");
    else if (status != KV_OK)
        failed(bench, status, "load");
    free(keys);
    free(records);
    leave(&bench->pace);
    return status;
}

/* Says which operation failed, in words that identify the record. */
static int failed_at(struct bench *bench, const struct bench_plan *plan, size_t i, int status)
{
    char what[128];
    snprintf(what, sizeof what, "%s of record %" PRIu64, operation_name[plan->operation[i]],
             plan->number[i]);
    return failed(bench, status, what);
}

/* Compares what was read of a record with what was written. */
static int compare(struct bench *bench, uint64_t number, struct kv_slice found,
                   struct kv_slice expected)
{
    if (found.size == expected.size && memcmp(found.data, expected.data, found.size) == 0)
        return KV_OK;
    const unsigned char *one = found.data, *other = expected.data;
    size_t same = 0;
    while (same < found.size && same < expected.size && one[same] == other[same])
        same++;
    snprintf(bench->error, sizeof bench->error,
             "wrong answer: get of record %" PRIu64
             ": %zu bytes where %zu were written, first difference at byte %zu",
             number, found.size, expected.size, same);
    return KV_ERROR;
}

/* The value as a program has it that just made it: in the processor's cache. A slice of the pool
 * would come from anywhere, and cost a large write a tenth more. */
static struct kv_slice fresh(struct bench *bench, struct kv_slice value)
{
    memcpy(bench->value, value.data, value.size);
    return (struct kv_slice){bench->value, value.size};
}

/* Makes sure that a get which copies nothing cannot pass with what an earlier one left behind. */
static void spoil(struct bench *bench, struct kv_slice expected)
{
    if (expected.size > 0 && expected.size <= bench->capacity) {
        const unsigned char *bytes = expected.data;
        bench->buffer[0] = (unsigned char)~bytes[0];
        bench->buffer[expected.size - 1] = (unsigned char)~bytes[expected.size - 1];
    }
}

/* A scan, and how far it came. */
struct scan {
    struct bench *bench;
    const struct bench_plan *plan;
    unsigned char limit[RECORDS_KEY_SIZE]; /* forwards, keys from here on are not the plan's */
    bool backwards;                        /* then keys before it */
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
    return failed(scan->bench, KV_NOT_FOUND, what);
}

static int too_many(struct scan *scan)
{
    return failed(scan->bench, KV_EXISTS, "scan: a record that was removed, or none of ours");
}

/* Less than, equal to or greater than 0 as the key is before, at or after the other. */
static int order(const struct bench *bench, struct kv_slice key,
                 const unsigned char other[RECORDS_KEY_SIZE])
{
    size_t size = key.size < bench->key_size ? key.size : bench->key_size;
    int found = memcmp(key.data, other, size);
    if (found != 0 || key.size == bench->key_size)
        return found;
    return key.size < bench->key_size ? -1 : 1;
}

/* The value as get would leave it, with the time until then. */
static struct kv_slice take(struct scan *scan, struct kv_slice value)
{
    struct bench *bench = scan->bench;
    if (scan->nanoseconds == NULL || value.size > bench->capacity)
        return value;
    memcpy(bench->buffer, value.data, value.size);
    scan->nanoseconds[scan->seen] = now() - scan->mark;
    return (struct kv_slice){bench->buffer, value.size};
}

static int visit(void *context, struct kv_slice key, struct kv_slice value)
{
    struct scan *scan = context;
    const struct bench_plan *plan = scan->plan;
    unsigned char expected[RECORDS_KEY_SIZE];
    int past = order(scan->bench, key, scan->limit);
    if (scan->status != KV_OK) /* the engine goes on though it was told to stop */
        return 1;
    if (!scan->unlimited && (scan->backwards ? past < 0 : past >= 0))
        return 1;
    if (scan->seen == plan->count) {
        scan->status = too_many(scan);
        return 1;
    }
    value = take(scan, value);
    records_key(plan->number[scan->seen], scan->bench->stride, expected);
    call_ahead(scan->bench, plan, scan->seen);
    int place = order(scan->bench, key, expected);
    if (place == 0)
        scan->status = compare(scan->bench, plan->number[scan->seen], value,
                               planned_value(scan->bench, plan, scan->seen));
    else
        scan->status = (place < 0) != scan->backwards ? too_many(scan) : absent(scan);
    scan->seen++;
    if (scan->nanoseconds != NULL)
        scan->mark = now();
    return scan->status != KV_OK || (scan->open_end && scan->seen == plan->count);
}

/* Anything wrong is told in bench->error. */
static int scan_plan(struct scan *scan, struct kv_slice from)
{
    struct bench *bench = scan->bench;
    const struct kv_driver *driver = bench->driver;
    int status = scan->backwards ? driver->scan_back(bench->kv, from, visit, scan)
                                 : driver->scan(bench->kv, from, visit, scan);
    if (status != KV_OK)
        return failed(bench, status, "scan");
    if (scan->status == KV_OK && scan->seen < scan->plan->count)
        return absent(scan);
    return scan->status;
}

/* A scan among other operations; the records that it has to find follow from their numbers. */
static int read_some(struct bench *bench, const struct bench_plan *plan, size_t i, uint64_t *total)
{
    uint8_t operation[BENCH_SCAN_MAX] = {0};
    uint64_t number[BENCH_SCAN_MAX], nanoseconds[BENCH_SCAN_MAX];
    uint32_t offset[BENCH_SCAN_MAX], size[BENCH_SCAN_MAX];
    struct bench_plan expected = {plan->size[i], operation, number, offset, size};
    struct scan scan = {.bench = bench, .plan = &expected, .unlimited = true, .open_end = true,
                        .status = KV_OK, .nanoseconds = nanoseconds};
    unsigned char from[RECORDS_KEY_SIZE];
    if (expected.count > BENCH_SCAN_MAX)
        return failed(bench, KV_TOO_LARGE, "scan");
    for (size_t k = 0; k < expected.count; k++) {
        number[k] = plan->number[i] + k;
        records_value(&bench->values, number[k], plan->offset[i], &offset[k], &size[k]);
    }
    records_key(plan->number[i], bench->stride, from);
    scan.mark = begin(bench);
    int status = scan_plan(&scan, (struct kv_slice){from, bench->key_size});
    *total = 0;
    for (size_t k = 0; k < scan.seen; k++)
        *total += nanoseconds[k];
    return status;
}

int bench_run(struct bench *bench, const struct bench_plan *plan, uint64_t *nanoseconds)
{
    const struct kv_driver *driver = bench->driver;
    struct kv *kv = bench->kv;
    int checked = (driver->capabilities & KV_FORGETS) == 0;
    resume(&bench->pace);
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char bytes[RECORDS_KEY_SIZE];
        call_ahead(bench, plan, i);
        records_key(plan->number[i], bench->stride, bytes);
        struct kv_slice key = {bytes, bench->key_size}, value = planned_value(bench, plan, i);
        size_t size = 0;
        int status = KV_ERROR;
        uint64_t start = 0, stop = 0;
        switch ((enum bench_operation)plan->operation[i]) {
        case BENCH_INSERT:
            value = fresh(bench, value);
            start = begin(bench);
            status = driver->insert(kv, key, value);
            stop = now();
            break;
        case BENCH_GET:
            spoil(bench, value);
            start = begin(bench);
            status = driver->get(kv, key, bench->buffer, bench->capacity, &size);
            stop = now();
            break;
        case BENCH_UPDATE:
            value = fresh(bench, value);
            start = begin(bench);
            status = driver->update(kv, key, value);
            stop = now();
            break;
        case BENCH_REMOVE:
            start = begin(bench);
            status = driver->remove(kv, key);
            stop = now();
            break;
        case BENCH_SCAN:
            status = read_some(bench, plan, i, &nanoseconds[i]);
            break;
        }
        if (plan->operation[i] != BENCH_SCAN)
            nanoseconds[i] = stop - start;
        if (plan->operation[i] == BENCH_SCAN && status != KV_OK)
            return KV_ERROR;
        if (status != KV_OK)
            return failed_at(bench, plan, i, status);
        if (plan->operation[i] == BENCH_GET && checked &&
            compare(bench, plan->number[i], (struct kv_slice){bench->buffer, size}, value) != KV_OK)
            return KV_ERROR;
    }
    leave(&bench->pace);
    return KV_OK;
}

/* One operation of a plan that must be refused. */
static int refused(struct bench *bench, const struct bench_plan *plan, size_t i)
{
    const struct kv_driver *driver = bench->driver;
    unsigned char bytes[RECORDS_KEY_SIZE];
    struct kv_slice key = {bytes, bench->key_size}, value = planned_value(bench, plan, i);
    size_t size = 0;
    int status = KV_ERROR, refusal = KV_NOT_FOUND;
    records_key(plan->number[i], bench->stride, bytes);
    switch ((enum bench_operation)plan->operation[i]) {
    case BENCH_INSERT:
        status = driver->insert(bench->kv, key, value);
        refusal = KV_EXISTS;
        break;
    case BENCH_GET:
        status = driver->get(bench->kv, key, bench->buffer, bench->capacity, &size);
        break;
    case BENCH_UPDATE:
        status = driver->update(bench->kv, key, value);
        break;
    case BENCH_REMOVE:
        status = driver->remove(bench->kv, key);
        break;
    case BENCH_SCAN: /* finds what there is: nothing to refuse */
        break;
    }
    if (status == refusal)
        return KV_OK;
    if (status != KV_OK)
        return failed_at(bench, plan, i, status);
    snprintf(bench->error, sizeof bench->error,
             "wrong answer: %s of record %" PRIu64 ": done, though its key %s",
             operation_name[plan->operation[i]], plan->number[i],
             refusal == KV_EXISTS ? "exists" : "does not exist");
    return KV_ERROR;
}

int bench_refuse(struct bench *bench, const struct bench_plan *plan)
{
    int status = KV_OK;
    if (bench->driver->capabilities & KV_FORGETS)
        return KV_OK;
    for (size_t i = 0; i < plan->count && status == KV_OK; i++)
        status = refused(bench, plan, i);
    return status;
}

int bench_check(struct bench *bench, const struct bench_plan *plan, uint64_t first, uint64_t end)
{
    struct scan scan = {.bench = bench, .plan = plan, .unlimited = end == BENCH_END,
                        .status = KV_OK};
    unsigned char from[RECORDS_KEY_SIZE];
    records_key(first, bench->stride, from);
    records_key(end, bench->stride, scan.limit);
    return scan_plan(&scan, (struct kv_slice){from, first == 0 ? 0 : bench->key_size});
}

int bench_scan(struct bench *bench, const struct bench_plan *plan, uint64_t first, uint64_t end,
               bool backwards, uint64_t *nanoseconds)
{
    struct scan scan = {.bench = bench, .plan = plan, .backwards = backwards, .status = KV_OK,
                        .nanoseconds = nanoseconds};
    unsigned char from[RECORDS_KEY_SIZE];
    records_key(backwards ? end - 1 : first, bench->stride, from);
    records_key(backwards ? first : end, bench->stride, scan.limit);
    scan.mark = now();
    return scan_plan(&scan, (struct kv_slice){from, bench->key_size});
}

int bench_compact(struct bench *bench)
{
    if (bench->driver->compact == NULL) {
        snprintf(bench->error, sizeof bench->error, "compact: the store has no such call");
        return KV_ERROR;
    }
    int status = bench->driver->compact(bench->kv);
    return status == KV_OK ? KV_OK : failed(bench, status, "compact");
}

void bench_clock(size_t count, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t start = now();
        nanoseconds[i] = now() - start;
    }
}
