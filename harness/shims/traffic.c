#include "traffic.h"
#include "clock.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { CATCH_UP = 10000000 /* ns of writes that a late writer makes up for */ };

/* What the threads share. */
struct run {
    struct loop *loop;
    struct traffic *traffic;
    uint64_t start;
    atomic_size_t running; /* readers */
    atomic_bool failed;    /* whoever sets it writes the error */
};

struct reader {
    struct run *run;
    pthread_t thread;
    size_t index;
    struct traffic_tally tally;
};

static void fail(struct run *run, const char *text)
{
    if (!atomic_exchange(&run->failed, true))
        snprintf(run->loop->error, sizeof run->loop->error, "%s", text);
}

static void fail_status(struct run *run, int status, const char *what, uint64_t number)
{
    char text[700], unknown[32];
    const char *why = status == KV_OK ? "wrong answer: a value that was not there at that time"
                                      : store_reason(run->loop->driver, status, unknown);
    snprintf(text, sizeof text, "%s of record %" PRIu64 ": %s", what, number, why);
    fail(run, text);
}

static void count(struct traffic_tally *tally, uint64_t tick, uint64_t nanoseconds)
{
    static const double per_bin = 50.498349764858006; /* 1 / ln 1.02 */
    size_t bin = (size_t)(log((double)(nanoseconds == 0 ? 1 : nanoseconds)) * per_bin);
    tally->bins[bin < tally->bin_count ? bin : tally->bin_count - 1]++;
    tally->ticks[tick < tally->tick_count ? tick : tally->tick_count - 1]++;
    tally->sum += nanoseconds;
    if (tally->n++ == 0 || nanoseconds < tally->min)
        tally->min = nanoseconds;
    if (nanoseconds > tally->max)
        tally->max = nanoseconds;
}

static void add(struct traffic_tally *all, const struct traffic_tally *one)
{
    if (one->n == 0)
        return;
    if (all->n == 0 || one->min < all->min)
        all->min = one->min;
    if (one->max > all->max)
        all->max = one->max;
    all->n += one->n;
    all->sum += one->sum;
    for (size_t i = 0; i < all->bin_count; i++)
        all->bins[i] += one->bins[i];
    for (size_t i = 0; i < all->tick_count; i++)
        all->ticks[i] += one->ticks[i];
}

/* The versions of a record are atomic for the threads, and plain for the caller. */
static uint32_t version_of(const struct traffic *traffic, uint64_t number)
{
    return __atomic_load_n(&traffic->version[number], __ATOMIC_ACQUIRE);
}

static bool is_version(const struct loop *loop, uint64_t number, uint32_t version,
                       struct kv_slice found)
{
    uint32_t offset, size;
    records_value(&loop->values, number, version, &offset, &size);
    return found.size == size && memcmp(found.data, loop->pool + offset, size) == 0;
}

static bool over(const struct run *run, uint64_t time)
{
    uint64_t duration = run->traffic->duration;
    return atomic_load_explicit(&run->failed, memory_order_relaxed) ||
           (duration > 0 && time - run->start >= duration);
}

static void read_records(struct reader *reader, struct kv *session, unsigned char *buffer)
{
    struct run *run = reader->run;
    struct loop *loop = run->loop;
    struct traffic *traffic = run->traffic;
    bool checked = (loop->driver->capabilities & KV_FORGETS) == 0;
    uint64_t random = records_mix(traffic->seed + reader->index + 1);
    uint64_t stop = now();
    for (uint64_t i = 0; (traffic->reads == 0 || i < traffic->reads) && !over(run, stop); i++) {
        unsigned char key[RECORDS_KEY_SIZE];
        size_t size = 0;
        uint64_t number = records_mix(random + i) % traffic->records;
        records_key(number, loop->stride, key);
        uint32_t version = version_of(traffic, number);
        uint64_t start = now();
        int status = loop->driver->get(session, (struct kv_slice){key, loop->key_size}, buffer,
                                       loop->capacity, &size);
        stop = now();
        /* One more than has ended may be on its way. */
        uint32_t last = version_of(traffic, number) + 1;
        struct kv_slice found = {buffer, size};
        while (checked && status == KV_OK && version <= last &&
               !is_version(loop, number, version, found))
            version++;
        if (status != KV_OK || (checked && version > last)) {
            fail_status(run, status, "get", number);
            return;
        }
        count(&reader->tally, (stop - run->start) / traffic->tick, stop - start);
    }
}

static void *read_in_thread(void *argument)
{
    struct reader *reader = argument;
    struct run *run = reader->run;
    const struct kv_driver *driver = run->loop->driver;
    struct kv *session = run->loop->kv;
    unsigned char *buffer = malloc(run->loop->capacity + 1);
    int status = driver->begin == NULL ? KV_OK : driver->begin(run->loop->kv, &session);
    if (buffer == NULL)
        fail(run, "out of memory");
    else if (status != KV_OK)
        fail_status(run, status, "session for a get", 0);
    else
        read_records(reader, session, buffer);
    if (driver->begin != NULL && status == KV_OK && driver->end(session) != KV_OK)
        fail(run, driver->error());
    free(buffer);
    atomic_fetch_sub(&run->running, 1);
    return NULL;
}

static void sleep_until(uint64_t time)
{
    struct timespec until = {(time_t)(time / 1000000000), (long)(time % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void write_records(struct run *run)
{
    struct loop *loop = run->loop;
    struct traffic *traffic = run->traffic;
    uint64_t random = records_mix(traffic->seed), due = run->start, time = now();
    for (uint64_t i = 0; atomic_load(&run->running) > 0 && !over(run, time); i++) {
        unsigned char key[RECORDS_KEY_SIZE];
        uint64_t number = records_mix(random + i) % traffic->records;
        uint32_t offset, size, version = traffic->version[number] + 1;
        records_key(number, loop->stride, key);
        records_value(&loop->values, number, version, &offset, &size);
        struct kv_record record = {{key, loop->key_size}, {loop->pool + offset, size}};
        due += traffic->interval;
        time = now();
        if (due + CATCH_UP < time)
            due = time - CATCH_UP;
        if (due > time)
            sleep_until(due);
        uint64_t start = now();
        int status = loop->driver->write(loop->kv, KV_PUT, &record, 1);
        time = now();
        if (status != KV_OK) {
            fail_status(run, status, "write", number);
            return;
        }
        __atomic_store_n(&traffic->version[number], version, __ATOMIC_RELEASE);
        count(&traffic->write, (time - run->start) / traffic->tick, time - start);
    }
}

int traffic_run(struct loop *loop, struct traffic *traffic)
{
    struct run run = {.loop = loop, .traffic = traffic};
    struct reader *readers = calloc(traffic->readers, sizeof *readers);
    size_t begun = 0;
    if (readers == NULL) {
        snprintf(loop->error, sizeof loop->error, "out of memory");
        return KV_ERROR;
    }
    prctl(PR_SET_TIMERSLACK, 1UL); /* a sleep of 100 us would take 150 */
    atomic_store(&run.running, traffic->readers);
    run.start = now();
    for (; begun < traffic->readers; begun++) {
        struct reader *reader = &readers[begun];
        reader->run = &run;
        reader->index = begun;
        reader->tally = (struct traffic_tally){.bin_count = traffic->read.bin_count,
                                               .tick_count = traffic->read.tick_count};
        reader->tally.bins = calloc(reader->tally.bin_count, sizeof *reader->tally.bins);
        reader->tally.ticks = calloc(reader->tally.tick_count, sizeof *reader->tally.ticks);
        if (reader->tally.bins == NULL || reader->tally.ticks == NULL ||
            pthread_create(&reader->thread, NULL, read_in_thread, reader) != 0) {
            fail(&run, "no memory or thread for a reader");
            atomic_fetch_sub(&run.running, traffic->readers - begun);
            free(reader->tally.bins);
            free(reader->tally.ticks);
            break;
        }
    }
    if (traffic->interval > 0)
        write_records(&run);
    for (size_t i = 0; i < begun; i++) {
        pthread_join(readers[i].thread, NULL);
        add(&traffic->read, &readers[i].tally);
        free(readers[i].tally.bins);
        free(readers[i].tally.ticks);
    }
    traffic->elapsed = now() - run.start;
    free(readers);
    return atomic_load(&run.failed) ? KV_ERROR : KV_OK;
}
