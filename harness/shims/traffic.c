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
    struct tally tally;
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

/* The versions of a record are atomic for the threads, and plain for the caller. */
static uint8_t version_of(const struct traffic *traffic, uint64_t number)
{
    return __atomic_load_n(&traffic->records->state[number], __ATOMIC_ACQUIRE);
}

/* Whether the value is that of a version from `first` to one more than `last`, which may be on its
 * way. */
static bool is_recent(const struct loop *loop, uint64_t number, uint8_t first, uint8_t last,
                      struct kv_slice found)
{
    unsigned count = (last + RECORDS_VERSIONS - first) % RECORDS_VERSIONS + 2U;
    for (unsigned i = 0; i < count; i++)
        if (records_is_value(&loop->values, number, (first + i) % RECORDS_VERSIONS, found.data,
                             found.size))
            return true;
    return false;
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
        uint64_t number = records_mix(random + i) % traffic->records->born;
        records_key(number, loop->stride, key);
        uint8_t version = version_of(traffic, number);
        uint64_t start = now();
        int status = loop->driver->get(session, (struct kv_slice){key, loop->key_size}, buffer,
                                       loop->capacity, &size);
        stop = now();
        struct kv_slice found = {buffer, size};
        if (status != KV_OK ||
            (checked && !is_recent(loop, number, version, version_of(traffic, number), found))) {
            fail_status(run, status, "get", number);
            return;
        }
        tally_add(&reader->tally, stop, stop - start);
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
        uint64_t number = records_mix(random + i) % traffic->records->born;
        uint8_t version = (traffic->records->state[number] + 1) % RECORDS_VERSIONS;
        records_key(number, loop->stride, key);
        size_t size = records_value(&loop->values, number, version, loop->value);
        struct kv_record record = {{key, loop->key_size}, {loop->value, size}};
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
        __atomic_store_n(&traffic->records->state[number], version, __ATOMIC_RELEASE);
        tally_add(&traffic->write->tally, time, time - start);
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
    loop_enter(loop);
    run.start = traffic->read->tally.start = traffic->write->tally.start = now();
    for (; begun < traffic->readers; begun++) {
        struct reader *reader = &readers[begun];
        reader->run = &run;
        reader->index = begun;
        reader->tally = traffic->read->tally; /* its sizes; it has no counts yet */
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
        tally_merge(&traffic->read->tally, &readers[i].tally);
        free(readers[i].tally.bins);
        free(readers[i].tally.ticks);
    }
    loop->ended = now();
    loop_leave(loop, traffic->both);
    free(readers);
    return atomic_load(&run.failed) ? KV_ERROR : KV_OK;
}
