#include "traffic.h"
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { CATCH_UP = 10000000 /* ns of writes that a late writer makes up for */, PAGE = 4096 };

/* What the threads share. */
struct run {
    struct loop *loop;
    struct traffic *traffic;
    sem_t ready, go; /* posted for each thread: by it, and to it */
    uint64_t start;
    atomic_size_t reading; /* readers that are not done */
    atomic_bool failed;    /* whoever sets it writes the error */
};

/* A reader or a writer. While it runs it works on a copy, so that no two share a cache line. */
struct worker {
    struct run *run;
    size_t index; /* readers come first */
    struct kv *session;
    unsigned char *value; /* that was read, or is to be written */
    uint64_t random, stopped;
    struct tally tally;
    struct tally_second second;
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

/* Of versions from `first` to `last` and `more` after it, the one whose value this is; -1 if it is
 * none of them. */
static int version_found(const struct loop *loop, uint64_t number, uint8_t first, uint8_t last,
                         unsigned more, struct kv_slice found)
{
    unsigned count = (last + RECORDS_VERSIONS - first) % RECORDS_VERSIONS + 1U + more;
    for (unsigned i = 0; i < count; i++) {
        unsigned version = (first + i) % RECORDS_VERSIONS;
        if (records_is_value(&loop->values, number, version, found.data, found.size))
            return (int)version;
    }
    return -1;
}

/* Whether the value is that of a version from `first` to one more than `last`, which may be on its
 * way. */
static bool is_recent(const struct loop *loop, uint64_t number, uint8_t first, uint8_t last,
                      struct kv_slice found)
{
    return version_found(loop, number, first, last, 1, found) >= 0;
}

static bool reads(const struct worker *worker)
{
    return worker->index < worker->run->traffic->readers;
}

/* Whether a thread is to stop. Writers beside readers stop with them. */
static bool over(struct worker *worker, uint64_t time)
{
    struct run *run = worker->run;
    const struct traffic *traffic = run->traffic;
    worker->stopped = time;
    return atomic_load_explicit(&run->failed, memory_order_relaxed) ||
           (traffic->duration > 0 && time - run->start >= traffic->duration) ||
           (traffic->readers > 0 && !reads(worker) && atomic_load(&run->reading) == 0);
}

static void read_records(struct worker *worker)
{
    struct run *run = worker->run;
    struct loop *loop = run->loop;
    struct traffic *traffic = run->traffic;
    bool checked = (loop->driver->capabilities & KV_FORGETS) == 0;
    uint64_t time = run->start;
    for (uint64_t i = 0; !over(worker, time) && (traffic->reads == 0 || i < traffic->reads); i++) {
        unsigned char key[RECORDS_KEY_MAX];
        size_t size = 0;
        uint64_t number = records_mix(worker->random + i) % traffic->records->born;
        records_key(number, loop->stride, loop->key_size, key);
        uint8_t version = version_of(traffic, number);
        uint64_t start = now();
        int status = loop->driver->get(worker->session, (struct kv_slice){key, loop->key_size},
                                       worker->value, loop->capacity, &size);
        time = now();
        struct kv_slice found = {worker->value, size};
        if (status != KV_OK ||
            (checked && !is_recent(loop, number, version, version_of(traffic, number), found))) {
            fail_status(run, status, "get", number);
            return;
        }
        tally_add(&worker->tally, time, time - start);
    }
}

/* Writes back the file system of a folder. Returns 0 or an error number. */
static int sync_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = folder < 0 || syncfs(folder) != 0 ? errno : 0;
    if (folder >= 0)
        close(folder);
    return code;
}

static void back_up(struct worker *worker)
{
    struct run *run = worker->run;
    const struct kv_driver *driver = run->loop->driver;
    char text[700], unknown[32];
    int code, status = driver->backup(worker->session, run->traffic->backup);
    if (status != KV_OK) {
        snprintf(text, sizeof text, "backup: %s", store_reason(driver, status, unknown));
        fail(run, text);
    } else if ((code = sync_folder(run->traffic->backup)) != 0) {
        snprintf(text, sizeof text, "backup: its sync failed: %s", strerror(code));
        fail(run, text);
    }
    worker->stopped = now();
    tally_add(&worker->tally, worker->stopped, worker->stopped - run->start);
}

/* Waits until the next write is due; returns the time. */
static uint64_t await_turn(uint64_t *due, uint64_t interval)
{
    uint64_t time = now();
    *due += interval;
    if (*due + CATCH_UP < time)
        *due = time - CATCH_UP;
    if (*due <= time)
        return time;
    struct timespec until = {(time_t)(*due / 1000000000), (long)(*due % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    return now();
}

static void write_records(struct worker *worker)
{
    struct run *run = worker->run;
    struct loop *loop = run->loop;
    struct traffic *traffic = run->traffic;
    uint64_t writers = traffic->among, writer = traffic->first + worker->index - traffic->readers;
    uint64_t own = (traffic->records->born - writer + writers - 1) / writers; /* records */
    uint64_t due = run->start, time = run->start;
    for (uint64_t i = 0; !over(worker, time); i++) {
        unsigned char key[RECORDS_KEY_MAX];
        uint64_t number = records_mix(worker->random + i) % own * writers + writer;
        uint8_t version = (traffic->records->state[number] + 1) % RECORDS_VERSIONS;
        records_key(number, loop->stride, loop->key_size, key);
        size_t size = records_value(&loop->values, number, version, worker->value);
        struct kv_record record = {{key, loop->key_size}, {worker->value, size}};
        if (traffic->interval > 0 && over(worker, await_turn(&due, traffic->interval)))
            return;
        uint64_t start = now();
        int status = loop->driver->write(worker->session, KV_PUT, &record, 1);
        time = now();
        if (status != KV_OK) {
            fail_status(run, status, "write", number);
            return;
        }
        __atomic_store_n(&traffic->records->state[number], version, __ATOMIC_RELEASE);
        tally_add(&worker->tally, time, time - start);
    }
}

static void await(sem_t *posted)
{
    while (sem_wait(posted) != 0) /* a signal came */
        ;
}

/* Gives the thread a second of its own for the line of all; its bins are there. */
static void begin_line(struct worker *worker)
{
    uint64_t *bins = worker->second.bins;
    if (worker->tally.second == NULL)
        return;
    worker->second = *worker->tally.second;
    worker->second.bins = bins;
    worker->tally.second = &worker->second;
}

static void *work(void *argument)
{
    struct worker worker = *(struct worker *)argument;
    struct run *run = worker.run;
    const struct kv_driver *driver = run->loop->driver;
    char unknown[32];
    int status = driver->begin == NULL ? KV_OK : driver->begin(run->loop->kv, &worker.session);
    if (status != KV_OK)
        fail(run, store_reason(driver, status, unknown));
    sem_post(&run->ready);
    await(&run->go);
    worker.tally.start = run->start;
    begin_line(&worker);
    if (reads(&worker)) {
        if (run->traffic->backup != NULL)
            back_up(&worker);
        else
            read_records(&worker);
        atomic_fetch_sub(&run->reading, 1);
    } else {
        write_records(&worker);
    }
    tally_end(&worker.tally);
    if (driver->begin != NULL && status == KV_OK && driver->end(worker.session) != KV_OK)
        fail(run, driver->error());
    *(struct worker *)argument = worker;
    return NULL;
}

/* Begins worker number `index`. What it allocates, end_worker frees. */
static bool begin_worker(struct run *run, struct worker *worker, size_t index, pthread_t *thread)
{
    struct traffic *traffic = run->traffic;
    struct loop_phase *phase = index < traffic->readers ? traffic->read : traffic->write;
    size_t room = (run->loop->capacity / PAGE + 1) * PAGE;
    *worker = (struct worker){.run = run, .index = index, .session = run->loop->kv};
    worker->random = records_mix(traffic->seed + index + 1);
    worker->value = aligned_alloc(PAGE, room); /* loop.h says why */
    worker->tally = phase->tally;              /* its sizes; it has no counts yet */
    worker->tally.bins = calloc(worker->tally.bin_count, sizeof *worker->tally.bins);
    worker->tally.ticks = calloc(worker->tally.tick_count + 1, sizeof *worker->tally.ticks);
    worker->second.bins = calloc(worker->tally.bin_count, sizeof *worker->second.bins);
    return worker->value != NULL && worker->tally.bins != NULL && worker->tally.ticks != NULL &&
           worker->second.bins != NULL && pthread_create(thread, NULL, work, worker) == 0;
}

static void end_worker(struct worker *worker)
{
    free(worker->value);
    free(worker->tally.bins);
    free(worker->tally.ticks);
    free(worker->second.bins);
}

int traffic_run(struct loop *loop, struct traffic *traffic)
{
    struct run run = {.loop = loop, .traffic = traffic};
    size_t count = traffic->readers + traffic->writers, begun = 0;
    struct worker *workers = calloc(count, sizeof *workers);
    pthread_t *threads = calloc(count, sizeof *threads); /* apart: the copies leave it alone */
    if (workers == NULL || threads == NULL) {
        free(workers);
        free(threads);
        snprintf(loop->error, sizeof loop->error, "out of memory");
        return KV_ERROR;
    }
    prctl(PR_SET_TIMERSLACK, 1UL); /* a sleep of 100 us would take 150 */
    sem_init(&run.ready, 0, 0);
    sem_init(&run.go, 0, 0);
    atomic_store(&run.reading, traffic->readers);
    while (begun < count && begin_worker(&run, &workers[begun], begun, &threads[begun]))
        begun++;
    if (begun < count) {
        fail(&run, "no memory or thread for a reader or writer");
        end_worker(&workers[begun]);
    }
    for (size_t i = 0; i < begun; i++)
        await(&run.ready);
    loop_enter(loop, traffic->both);
    run.start = loop->entered;
    tally_begin(&traffic->read->tally, run.start);
    tally_begin(&traffic->write->tally, run.start);
    for (size_t i = 0; i < begun; i++)
        sem_post(&run.go);
    for (size_t i = 0; i < begun; i++) {
        struct worker *worker = &workers[i];
        pthread_join(threads[i], NULL);
        tally_merge(&(reads(worker) ? traffic->read : traffic->write)->tally, &worker->tally);
        traffic->done[i] = worker->tally.n;
        if (worker->stopped > loop->ended)
            loop->ended = worker->stopped;
        end_worker(worker);
    }
    loop_leave(loop, traffic->both);
    sem_destroy(&run.ready);
    sem_destroy(&run.go);
    free(workers);
    free(threads);
    return atomic_load(&run.failed) ? KV_ERROR : KV_OK;
}

int traffic_find(struct loop *loop, struct plan_records *records, const uint8_t *before)
{
    struct run run = {.loop = loop};
    unsigned char bytes[RECORDS_KEY_MAX];
    struct kv_slice key = {bytes, loop->key_size};
    for (uint64_t number = 0; number < records->born; number++) {
        size_t size = 0;
        records_key(number, loop->stride, loop->key_size, bytes);
        int status = loop->driver->get(loop->kv, key, loop->buffer, loop->capacity, &size);
        int version = status != KV_OK
                          ? -1
                          : version_found(loop, number, before[number], records->state[number], 0,
                                          (struct kv_slice){loop->buffer, size});
        if (version < 0) {
            fail_status(&run, status, "get", number);
            return KV_ERROR;
        }
        records->state[number] = (uint8_t)version;
    }
    return KV_OK;
}
