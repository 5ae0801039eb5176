#include "bench.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static int wrong_value(struct bench *bench, const struct bench_plan *plan, size_t i, size_t size)
{
    struct kv_slice expected = planned_value(bench, plan, i);
    size_t same = 0;
    while (same < size && same < expected.size &&
           bench->buffer[same] == ((const unsigned char *)expected.data)[same])
        same++;
    snprintf(bench->error, sizeof bench->error,
             "wrong answer: get of record %" PRIu64
             ": %zu bytes where %zu were written, first difference at byte %zu",
             plan->number[i], size, expected.size, same);
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
            (size != value.size || memcmp(bench->buffer, value.data, size) != 0))
            return wrong_value(bench, plan, i, size);
    }
    return KV_OK;
}
