/* A plugin for nbdkit: a disk in a file whose reads and flushes take at least a given time.
 *
 *     nbdkit slow.so image=FILE [read=MICROSECONDS] [sync=MICROSECONDS]
 *
 * A flush syncs the file, so what it made durable survives a loss of power as on the disk below. A
 * request that takes longer than its time is not delayed further.
 */
#include "image.h"
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#define SECOND 1000000000ull

static char *path;
static uint32_t read_us, sync_us;

static int configure(const char *key, const char *value)
{
    if (strcmp(key, "image") == 0) {
        path = nbdkit_realpath(value);
        return path ? 0 : -1;
    }
    if (strcmp(key, "read") == 0)
        return nbdkit_parse_uint32_t(key, value, &read_us);
    if (strcmp(key, "sync") == 0)
        return nbdkit_parse_uint32_t(key, value, &sync_us);
    nbdkit_error("%s: no such key", key);
    return -1;
}

static int ready(void)
{
    if (!path) {
        nbdkit_error("image is needed");
        return -1;
    }
    int error = open_image(path);
    if (error)
        nbdkit_error("%s: %s", path, strerror(error));
    return error ? -1 : 0;
}

/* The time at which a request that begins now may end. Returns false if there is no clock. */
static bool due(uint32_t microseconds, struct timespec *end)
{
    if (clock_gettime(CLOCK_MONOTONIC, end))
        return false;
    uint64_t ns = (uint64_t)end->tv_nsec + microseconds * 1000ull;
    end->tv_sec += (time_t)(ns / SECOND);
    end->tv_nsec = (long)(ns % SECOND);
    return true;
}

static int wait_until(const struct timespec *end)
{
    int error;
    while ((error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, end, NULL)) == EINTR)
        ;
    return error;
}

static int read_disk(void *handle, void *buffer, uint32_t size, uint64_t offset, uint32_t flags)
{
    (void)handle, (void)flags;
    struct timespec end;
    if (!due(read_us, &end))
        return answer(errno);
    int error = read_image(buffer, size, offset);
    return answer(error ? error : wait_until(&end));
}

static int write_disk(void *handle, const void *buffer, uint32_t size, uint64_t offset,
                      uint32_t flags)
{
    (void)handle, (void)flags;
    return answer(write_image(buffer, size, offset));
}

static int flush_disk(void *handle, uint32_t flags)
{
    (void)handle, (void)flags;
    struct timespec end;
    if (!due(sync_us, &end) || fdatasync(image))
        return answer(errno);
    return answer(wait_until(&end));
}

static struct nbdkit_plugin plugin = {
    .name = "slow",
    .config = configure,
    .config_help = "image=FILE [read=MICROSECONDS] [sync=MICROSECONDS]",
    .get_ready = ready,
    .open = open_disk,
    .get_size = get_size,
    .pread = read_disk,
    .pwrite = write_disk,
    .flush = flush_disk,
};

NBDKIT_REGISTER_PLUGIN(plugin)
