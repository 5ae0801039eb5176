/* For ThreadSanitizer: runs traffic.c for a second, with four readers and a rate-limited writer.
 * The store is the null store, linked in, so that only the harness's own sharing is watched. */
#include "../../shims/traffic.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    RECORDS = 1000, /* few, so that readers and the writer often meet at one record */
    POOL = 1 << 16,
    VALUE = 100,
    BINS = 1200,
    TICKS = 20,
};

extern const struct kv_driver kv_driver;

int main(void)
{
    static unsigned char pool[POOL], buffer[VALUE], value[VALUE];
    static uint64_t bins[2][BINS], ticks[2][TICKS];
    static uint32_t version[RECORDS];
    struct loop loop = {
        .driver = &kv_driver,
        .pool = pool,
        .stride = UINT64_MAX / RECORDS,
        .key_size = RECORDS_KEY_SIZE,
        .values = {.seed = 1, .starts = POOL - VALUE, .low = VALUE, .span = 1},
        .buffer = buffer,
        .value = value,
        .capacity = VALUE,
    };
    struct traffic traffic = {
        .readers = 4,
        .duration = 1000000000,
        .interval = 100000,
        .tick = 100000000,
        .records = RECORDS,
        .seed = 1,
        .version = version,
        .read = {.bins = bins[0], .ticks = ticks[0], .bin_count = BINS, .tick_count = TICKS},
        .write = {.bins = bins[1], .ticks = ticks[1], .bin_count = BINS, .tick_count = TICKS},
    };
    records_fill_incompressible(pool, POOL, 1);
    int status = loop_open(&loop, ".", NULL, 0);
    if (status == KV_OK) {
        status = traffic_run(&loop, &traffic);
        int closed = loop_close(&loop);
        status = status == KV_OK ? closed : status;
    }
    if (status != KV_OK) {
        fprintf(stderr, "%s\n", loop.error);
        return 1;
    }
    printf("%" PRIu64 " reads, %" PRIu64 " writes\n", traffic.read.n, traffic.write.n);
    return traffic.read.n == 0 || traffic.write.n == 0;
}
