#include "bench.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How many operations ahead a value is called into the processor's cache, and how many bytes of
 * it: the processor itself sees a longer one coming. */
enum { AHEAD = 8, AHEAD_BYTES = 256, CACHE_LINE = 64 };

static const char *const operation_name[] = {"insert", "get", "update", "remove",
                                             "absence"};

static inline uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
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

static int failed(struct bench *bench, int status, const char *what)
{
    static const char *const reason[] = {
        [KV_NOT_FOUND] = "key not found",
        [KV_EXISTS] = "key exists",
        [KV_TOO_LARGE] = "key or value too large",
    };
    if (status < KV_NOT_FOUND || status > KV_ERROR)
        snprintf(bench->error, sizeof bench->error, "%s: undefined status %d", what, status);
    else
        snprintf(bench->error, sizeof bench->error, "%s: %s", what,
                 status == KV_ERROR ? bench->driver->error() : reason[status]);
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
            records[count].key = (struct kv_slice){keys[count], RECORDS_KEY_SIZE};
            records[count].value = planned_value(bench, plan, i);
        }
        uint64_t start = now();
        status = bench->driver->write_batch(bench->kv, records, count);
        nanoseconds[(*batches)++] = now() - start;
    }
    if (records == NULL || keys == NULL)
        snprintf(bench->error, sizeof bench->error, "out of memory");
    else if (status != KV_OK)
        failed(bench, status, "load");
    free(keys);
    free(records);
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
static int compare(struct bench *bench, const struct bench_plan *plan, size_t i,
                   struct kv_slice found)
{
    struct kv_slice expected = planned_value(bench, plan, i);
    if (found.size == expected.size && memcmp(found.data, expected.data, found.size) == 0)
        return KV_OK;
    const unsigned char *one = found.data, *other = expected.data;
    size_t same = 0;
    while (same < found.size && same < expected.size && one[same] == other[same])
        same++;
    snprintf(bench->error, sizeof bench->error,
             "wrong answer: get of record %" PRIu64
             ": %zu bytes where %zu were written, first difference at byte %zu",
             plan->number[i], found.size, expected.size, same);
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

int bench_run(struct bench *bench, const struct bench_plan *plan, uint64_t *nanoseconds)
{
    const struct kv_driver *driver = bench->driver;
    struct kv *kv = bench->kv;
    int checked = (driver->capabilities & KV_FORGETS) == 0;
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char bytes[RECORDS_KEY_SIZE];
        call_ahead(bench, plan, i);
        records_key(plan->number[i], bench->stride, bytes);
        struct kv_slice key = {bytes, sizeof bytes}, value = planned_value(bench, plan, i);
        size_t size = 0;
        int status = KV_ERROR;
        uint64_t start = 0, stop = 0;
        switch ((enum bench_operation)plan->operation[i]) {
        case BENCH_INSERT:
            value = fresh(bench, value);
            start = now();
            status = driver->insert(kv, key, value);
            stop = now();
            break;
        case BENCH_GET:
        case BENCH_ABSENT:
            spoil(bench, value);
            start = now();
            status = driver->get(kv, key, bench->buffer, bench->capacity, &size);
            stop = now();
            break;
        case BENCH_UPDATE:
            value = fresh(bench, value);
            start = now();
            status = driver->update(kv, key, value);
            stop = now();
            break;
        case BENCH_REMOVE:
            start = now();
            status = driver->remove(kv, key);
            stop = now();
            break;
        }
        nanoseconds[i] = stop - start;
        if (plan->operation[i] == BENCH_ABSENT && checked) {
            if (status == KV_NOT_FOUND)
                continue;
            if (status == KV_OK)
                status = KV_EXISTS;
        }
        if (status != KV_OK)
            return failed_at(bench, plan, i, status);
        if (plan->operation[i] == BENCH_GET && checked &&
            compare(bench, plan, i, (struct kv_slice){bench->buffer, size}) != KV_OK)
            return KV_ERROR;
    }
    return KV_OK;
}

/* A scan, and how far it came. */
struct check {
    struct bench *bench;
    const struct bench_plan *plan;
    unsigned char end[RECORDS_KEY_SIZE];
    size_t seen;
    int status;
};

static int absent(struct check *check)
{
    char what[64];
    snprintf(what, sizeof what, "scan: record %" PRIu64, check->plan->number[check->seen]);
    return failed(check->bench, KV_NOT_FOUND, what);
}

static int too_many(struct check *check)
{
    return failed(check->bench, KV_EXISTS, "scan: a record that was removed, or none of ours");
}

/* Less than, equal to or greater than 0 as the key is before, at or after the other. */
static int order(struct kv_slice key, const unsigned char other[RECORDS_KEY_SIZE])
{
    size_t size = key.size < RECORDS_KEY_SIZE ? key.size : RECORDS_KEY_SIZE;
    int found = memcmp(key.data, other, size);
    if (found != 0 || key.size == RECORDS_KEY_SIZE)
        return found;
    return key.size < RECORDS_KEY_SIZE ? -1 : 1;
}

static int visit(void *context, struct kv_slice key, struct kv_slice value)
{
    struct check *check = context;
    const struct bench_plan *plan = check->plan;
    unsigned char expected[RECORDS_KEY_SIZE];
    if (order(key, check->end) >= 0)
        return 1;
    if (check->seen == plan->count) {
        check->status = too_many(check);
        return 1;
    }
    records_key(plan->number[check->seen], check->bench->stride, expected);
    call_ahead(check->bench, plan, check->seen);
    int place = order(key, expected);
    if (place == 0)
        check->status = compare(check->bench, plan, check->seen, value);
    else
        check->status = place < 0 ? too_many(check) : absent(check);
    check->seen++;
    return check->status != KV_OK;
}

int bench_check(struct bench *bench, const struct bench_plan *plan, uint64_t first, uint64_t end)
{
    struct check check = {.bench = bench, .plan = plan, .status = KV_OK};
    unsigned char from[RECORDS_KEY_SIZE];
    records_key(first, bench->stride, from);
    records_key(end, bench->stride, check.end);
    int status = bench->driver->scan(bench->kv, (struct kv_slice){from, sizeof from}, visit, &check);
    if (status != KV_OK)
        return failed(bench, status, "scan");
    if (check.status == KV_OK && check.seen < plan->count)
        return absent(&check);
    return check.status;
}

void bench_clock(size_t count, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t start = now();
        nanoseconds[i] = now() - start;
    }
}
