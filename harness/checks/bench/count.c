/* count LOOP SHIM LEVEL FOLDER RECORDS STEP...: opens an empty store and does the steps, each on
 * RECORDS records. Under callgrind, with --collect-atstart=no, each step gives a profile of its own,
 * of this thread alone. LOOP is libloop.so or a bare loop, LEVEL the durability ("-": as shipped). */
#include "../../shims/loop.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

enum { KEY = 16, VALUE = 100, BATCH = 1000, BINS = 1500, POOL = 8 << 20 };

static const struct step {
    const char *name;
    enum plan_source source;
    enum plan_operation operation;
    size_t batch; /* 0: single operations, as the contract has them */
} steps[] = {
    {"fill", PLAN_ALL, PLAN_INSERT, BATCH},
    {"insert", PLAN_DEAD_ONES, PLAN_INSERT, 0}, /* between those of fill */
    {"get", PLAN_DRAWN, PLAN_GET, 0},
    {"update", PLAN_DRAWN, PLAN_UPDATE, 0},
    {"remove", PLAN_DRAWN, PLAN_REMOVE, 0},
    {"fillseq", PLAN_ALL, PLAN_INSERT, 1}, /* the others are what peers do */
    {"fillrandom", PLAN_DRAWN, PLAN_INSERT, 1},
    {"set", PLAN_SHUFFLED, PLAN_INSERT, 1},
    {"readrandom", PLAN_DRAWN, PLAN_GET, 0},
    {"overwrite", PLAN_DRAWN, PLAN_UPDATE, 1},
    {NULL},
};

/* Valgrind has no room for LMDB's map of 1 TiB. The engine calls these, which map less of it, because
 * the symbols of a program come before those of the C library. */
static const size_t most_of_map = (size_t)1 << 30;

void *mmap(void *start, size_t size, int protection, int flags, int file, off_t offset)
{
    size = size < most_of_map ? size : most_of_map;
    return (void *)syscall(SYS_mmap, start, size, protection, flags, file, offset);
}

int munmap(void *start, size_t size)
{
    return (int)syscall(SYS_munmap, start, size < most_of_map ? size : most_of_map);
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "count: %s: %s\n", what, why);
    exit(1);
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        fail(name, dlerror());
    return found;
}

static const struct step *find(const char *name)
{
    const struct step *step = steps;
    while (step->name != NULL && strcmp(step->name, name) != 0)
        step++;
    if (step->name == NULL)
        fail(name, "no such step");
    return step;
}

int main(int count, char **given)
{
    static unsigned char pool[POOL + VALUE], buffer[VALUE], value[BATCH * VALUE];
    static uint64_t bins[PLAN_OPERATIONS + 1][BINS], next[4];
    static struct loop_phase phases[PLAN_OPERATIONS + 1];
    char error[STORE_ERROR];
    if (count < 7)
        fail("usage", "count LOOP SHIM LEVEL FOLDER RECORDS STEP...");
    void *library = dlopen(given[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail(given[1], dlerror());
    __typeof__(loop_open) *open = symbol(library, "loop_open");
    __typeof__(loop_load) *load = symbol(library, "loop_load");
    __typeof__(loop_run) *run = symbol(library, "loop_run");
    __typeof__(loop_close) *close = symbol(library, "loop_close");
    const struct kv_driver *driver = store_load(given[2], error);
    if (driver == NULL)
        fail(given[2], error);
    const struct kv_option level = {"durability", given[3]};
    uint64_t half = strtoull(given[5], NULL, 10);
    struct plan_records records = {.universe = 2 * half,
                                   .born = 2 * half,
                                   .loaded = 2 * half,
                                   .state = calloc(2 * half, 1),
                                   .dead = calloc(2 * half, sizeof *records.dead),
                                   .seed = 1,
                                   .random = 1,
                                   .next = next};
    struct loop loop = {
        .driver = driver,
        .stride = UINT64_MAX / records.universe,
        .key_size = KEY,
        .values = {.pool = pool, .seed = 1, .starts = POOL, .low = VALUE, .span = 1},
        .buffer = buffer,
        .value = value,
        .capacity = VALUE,
        .room = sizeof value,
        .meter = {.io = -1, .device = -1, .instructions = -1},
    };
    for (int i = 0; i <= PLAN_OPERATIONS; i++)
        phases[i].tally = (struct tally){.bins = bins[i], .bin_count = BINS};
    records_fill_incompressible(pool, sizeof pool, 1);
    plan_bury(&records, half);
    int status = open(&loop, given[4], &level, strcmp(level.value, "-") != 0);
    for (int i = 6; i < count && status == KV_OK; i++) {
        const struct step *step = find(given[i]);
        struct plan plan = {.records = &records,
                            .source = step->source,
                            .operation = step->operation,
                            .end = records.universe,
                            .left = half};
        if (step->source == PLAN_ALL) /* half of what it passes */
            plan.left = UINT64_MAX;
        plan_begin(&plan);
        CALLGRIND_TOGGLE_COLLECT;
        status = step->batch > 0 ? load(&loop, &plan, step->batch, &phases[PLAN_OPERATIONS])
                                 : run(&loop, &plan, 0, phases);
        CALLGRIND_TOGGLE_COLLECT;
        CALLGRIND_DUMP_STATS_AT(step->name);
    }
    if (status == KV_OK)
        status = close(&loop);
    if (status != KV_OK)
        fail(given[2], loop.error);
    return 0;
}
