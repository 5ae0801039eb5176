/* For ThreadSanitizer: runs traffic.c for a second, with four readers and a rate-limited writer.
 * The store is the null store, linked in, so that only the harness's own sharing is watched. */
#include "../../shims/traffic.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    RECORDS = 1000, /* few, so that readers and the writer often meet at one record */
    POOL = 1 << 16,
    VALUE = 100,
    BINS = 1500,
    TICKS = 20,
    SIDES = 3, /* readers, writer, both */
};

extern const struct kv_driver kv_driver;

int main(void)
{
    static unsigned char pool[POOL], buffer[VALUE], value[VALUE];
    static uint64_t bins[SIDES][BINS], ticks[SIDES][TICKS], next[4];
    static uint8_t state[RECORDS];
    static struct loop_phase phases[SIDES];
    struct loop loop = {
        .driver = &kv_driver,
        .stride = UINT64_MAX / RECORDS,
        .key_size = RECORDS_KEY_MAX,
        .values = {.pool = pool, .seed = 1, .starts = POOL - VALUE, .low = VALUE, .span = 1},
        .buffer = buffer,
        .value = value,
        .capacity = VALUE,
        .room = VALUE,
        .meter = {.io = -1, .device = -1, .instructions = -1},
    };
    struct plan_records records = {.universe = RECORDS,
                                   .born = RECORDS,
                                   .loaded = RECORDS,
                                   .state = state,
                                   .seed = 1,
                                   .random = 1,
                                   .next = next};
    struct traffic traffic = {
        .readers = 4,
        .duration = 1000000000,
        .interval = 100000,
        .seed = 1,
        .records = &records,
        .read = &phases[0],
        .write = &phases[1],
        .both = &phases[2],
    };
    for (int i = 0; i < SIDES; i++)
        phases[i].tally = (struct tally){.bins = bins[i],
                                         .ticks = ticks[i],
                                         .bin_count = BINS,
                                         .tick_count = TICKS,
                                         .tick = 100000000};
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
    uint64_t reads = phases[0].tally.n, writes = phases[1].tally.n;
    printf("%" PRIu64 " reads, %" PRIu64 " writes\n", reads, writes);
    return reads == 0 || writes == 0;
}
