/* A plugin for nbdkit: a disk in a file that records what reaches it, and fails on demand.
 *
 *     nbdkit recorder.so image=FILE log=FILE [acknowledged=FILE] [control=FILE]
 *
 * image: the bytes of the disk. log: a struct entry for each write and each flush, in the order in
 * which they arrive; the bytes of a write follow its entry. acknowledged: 64-bit numbers; number i
 * is not 0 once operation i of the program under test has returned. control: struct control, by
 * which a program counts requests and makes them fail. kvbench/machine/device.py reads and writes
 * all of them.
 */
#include "image.h"
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_SERIALIZE_ALL_REQUESTS
#define AT_ONCE 64 /* numbers of `acknowledged` that one call reads */

enum kind { WRITE = 1, FLUSH = 2 };

struct entry {
    uint64_t kind;
    uint64_t offset;       /* bytes */
    uint64_t size;         /* bytes; 0 for a flush */
    uint64_t acknowledged; /* operations that had returned when the request arrived */
    uint64_t time;         /* of arrival: CLOCK_MONOTONIC, in ns */
};

/* Requests are numbered from 0. Those of numbers begin <= n < end fail. */
struct kind_control {
    uint64_t seen; /* requests so far */
    uint64_t begin, end;
    uint64_t failed; /* requests that failed so far */
};

struct control {
    struct kind_control writes, flushes;
    uint64_t broken; /* errno, if the recording is incomplete */
};

static struct place {
    const char *key;
    char *path;
    int file;
} places[] = {
    {"image", NULL, -1}, {"log", NULL, -1}, {"acknowledged", NULL, -1}, {"control", NULL, -1}};
enum { IMAGE, LOG, ACKNOWLEDGED, CONTROL, PLACES };

static struct control unused, *control = &unused;
static uint64_t acknowledged;

static int configure(const char *key, const char *value)
{
    for (int i = 0; i < PLACES; i++)
        if (strcmp(key, places[i].key) == 0) {
            places[i].path = nbdkit_realpath(value);
            return places[i].path ? 0 : -1;
        }
    nbdkit_error("%s: no such key", key);
    return -1;
}

static int open_place(int which, int flags)
{
    struct place *place = &places[which];
    if (!place->path)
        return 0;
    place->file = open(place->path, flags | O_CLOEXEC);
    if (place->file < 0)
        nbdkit_error("%s: %s", place->path, strerror(errno));
    return place->file < 0 ? -1 : 0;
}

static int ready(void)
{
    if (!places[IMAGE].path || !places[LOG].path) {
        nbdkit_error("image and log are needed");
        return -1;
    }
    int error = open_image(places[IMAGE].path);
    if (error) {
        nbdkit_error("%s: %s", places[IMAGE].path, strerror(error));
        return -1;
    }
    if (open_place(LOG, O_WRONLY | O_APPEND) || open_place(ACKNOWLEDGED, O_RDONLY) ||
        open_place(CONTROL, O_RDWR))
        return -1;
    if (places[CONTROL].path) {
        control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED,
                       places[CONTROL].file, 0);
        if (control == MAP_FAILED) {
            nbdkit_error("%s: %s", places[CONTROL].path, strerror(errno));
            return -1;
        }
    }
    return 0;
}

/* Reads on in the file of acknowledged operations, which only grows. */
static uint64_t count_acknowledged(void)
{
    uint64_t numbers[AT_ONCE];
    if (places[ACKNOWLEDGED].file < 0)
        return 0;
    for (;;) {
        ssize_t got = pread(places[ACKNOWLEDGED].file, numbers, sizeof numbers,
                            (off_t)(acknowledged * sizeof *numbers));
        size_t count = got < 0 ? 0 : (size_t)got / sizeof *numbers, i = 0;
        while (i < count && numbers[i])
            i++;
        acknowledged += i;
        if (i < AT_ONCE)
            return acknowledged;
    }
}

/* Notes that the recording is incomplete. Returns -1. */
static int broken(int which, int error)
{
    control->broken = (uint64_t)error;
    nbdkit_error("%s: %s", places[which].path, strerror(error));
    return answer(error);
}

/* Appends an entry, with the bytes of a write. */
static int record(enum kind kind, uint64_t offset, const void *bytes, size_t size)
{
    struct timespec now = {0};
    if (clock_gettime(CLOCK_MONOTONIC, &now))
        return -1;
    struct entry entry = {.kind = kind,
                          .offset = offset,
                          .size = size,
                          .acknowledged = count_acknowledged(),
                          .time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec};
    struct iovec parts[] = {{&entry, sizeof entry}, {(void *)bytes, size}};
    ssize_t done = writev(places[LOG].file, parts, size ? 2 : 1);
    if (done == (ssize_t)(sizeof entry + size))
        return 0;
    return broken(LOG, done < 0 ? errno : ENOSPC); /* a short write: the disk of the log is full */
}

/* Counts a request, and fails it if its number is among those that are to fail. */
static int counted(struct kind_control *kind)
{
    uint64_t number = kind->seen++;
    if (number < kind->begin || number >= kind->end)
        return 0;
    kind->failed++;
    return answer(EIO);
}

static int read_disk(void *handle, void *buffer, uint32_t size, uint64_t offset, uint32_t flags)
{
    (void)handle, (void)flags;
    return answer(read_image(buffer, size, offset));
}

static int write_disk(void *handle, const void *buffer, uint32_t size, uint64_t offset,
                      uint32_t flags)
{
    (void)handle, (void)flags;
    if (counted(&control->writes) || record(WRITE, offset, buffer, size))
        return -1;
    int error = write_image(buffer, size, offset);
    return error ? broken(IMAGE, error) : 0;
}

/* The image itself is not synced: the disk is a recording, which no power loss is to survive. */
static int flush_disk(void *handle, uint32_t flags)
{
    (void)handle, (void)flags;
    return counted(&control->flushes) || record(FLUSH, 0, NULL, 0) ? -1 : 0;
}

/* No trim and no zero: nbdkit turns them into nothing, and into writes. */
static struct nbdkit_plugin plugin = {
    .name = "recorder",
    .config = configure,
    .config_help = "image=FILE log=FILE [acknowledged=FILE] [control=FILE]",
    .get_ready = ready,
    .open = open_disk,
    .get_size = get_size,
    .pread = read_disk,
    .pwrite = write_disk,
    .flush = flush_disk,
};

NBDKIT_REGISTER_PLUGIN(plugin)
