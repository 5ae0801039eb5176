/* threads SHIM FOLDER READERS [OPTION=VALUE]: for ThreadSanitizer, runs two writers of traffic.c for
 * 1.2 seconds in an empty folder, beside as many readers, as fast as they can. */
#include "../../shims/traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECORDS = 5000, /* few, so that readers and writers often meet at one record */
    POOL = 1 << 16,
    VALUE = 100,
    BINS = 1500,
    TICKS = 20,
    SIDES = 3, /* readers, writers, both */
    WRITERS = 2,
    MOST = 8, /* threads, and options */
};

static int run(struct loop *loop, const char *folder, struct kv_option *options, size_t count,
               struct plan_records *records, struct traffic *traffic)
{
    static struct loop_phase load;
    static uint64_t bins[BINS];
    load.tally = (struct tally){.bins = bins, .bin_count = BINS};
    struct plan plan = {.records = records, .source = PLAN_ALL, .end = RECORDS, .left = UINT64_MAX};
    plan_begin(&plan);
    int status = loop_open(loop, folder, options, count);
    if (status != KV_OK)
        return status;
    status = loop_load(loop, &plan, 1, &load);
    if (status == KV_OK)
        status = traffic_run(loop, traffic);
    int closed = loop_close(loop);
    return status == KV_OK ? closed : status;
}

int main(int count, char **given)
{
    static unsigned char pool[POOL], buffer[VALUE], value[VALUE];
    static uint64_t bins[SIDES][BINS], ticks[SIDES][TICKS], next[4], done[MOST];
    static uint8_t state[RECORDS];
    static uint64_t own[SIDES][BINS], recent[SIDES][TALLY_RECENT * BINS];
    static struct tally_row rows[SIDES][TICKS];
    static struct tally_line lines[SIDES];
    static struct tally_second seconds[SIDES];
    static struct loop_phase phases[SIDES];
    struct kv_option options[MOST];
    char error[STORE_ERROR] = "threads SHIM FOLDER READERS [OPTION=VALUE]";
    const struct kv_driver *driver = count < 4 || count > MOST ? NULL : store_load(given[1], error);
    if (driver == NULL) {
        fprintf(stderr, "%s\n", error);
        return 2;
    }
    for (int i = 4; i < count; i++) {
        options[i - 4].name = strsep(&given[i], "=");
        options[i - 4].value = given[i];
    }
    struct loop loop = {
        .driver = driver,
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
        .readers = strtoul(given[3], NULL, 10) % (MOST - WRITERS),
        .writers = WRITERS,
        .among = WRITERS,
        .duration = 1200000000,
        .seed = 1,
        .records = &records,
        .read = &phases[0],
        .write = &phases[1],
        .both = &phases[2],
        .done = done,
    };
    for (int i = 0; i < SIDES; i++) {
        lines[i] = (struct tally_line){.rows = rows[i], .room = TICKS, .recent = recent[i]};
        seconds[i] = (struct tally_second){.line = &lines[i], .bins = own[i], .bin_count = BINS};
        phases[i].tally = (struct tally){.bins = bins[i],
                                         .ticks = ticks[i],
                                         .bin_count = BINS,
                                         .tick_count = TICKS,
                                         .tick = 100000000,
                                         .second = &seconds[i]};
    }
    records_fill_incompressible(pool, POOL, 1);
    if (run(&loop, given[2], options, (size_t)count - 4, &records, &traffic) != KV_OK) {
        fprintf(stderr, "%s\n", loop.error);
        return 1;
    }
    uint64_t reads = phases[0].tally.n, writes = phases[1].tally.n;
    printf("%" PRIu64 " reads, %" PRIu64 " writes\n", reads, writes);
    return (traffic.readers > 0 && reads == 0) || writes == 0;
}
