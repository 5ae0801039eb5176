/* What a program would write by hand on an engine's own interface: open, fill in batches, update,
 * get. There is no contract, no shim and no check of an answer beyond its presence and size. Plans,
 * copies and clock reads are those of the harness, so the ratio of the two times is the harness's
 * own cost. Values are those of the harness without their tag, by which it checks them.
 *
 * Each engine is one file, compiled to one shared object: it includes this header, which has the
 * functions of loop.h, and defines the five static functions below, which the compiler inlines.
 * Durability is `process` as in kv.h: nothing is synced. An error ends the process with a message. */
#ifndef BARE_H
#define BARE_H

#include "../../shims/clock.h"
#include "../../shims/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BARE_BATCH = 1000, BARE_AHEAD = 32, KEY = 16 };

struct record {
    unsigned char key[KEY];
    const void *value;
    size_t size;
};

/* Creates the store in an empty folder. */
static void open_store(const char *folder);
static bool write_batch(struct record *records, size_t count);
/* look_up: first find out whether the key exists, if the engine's update does not say so (the
 * contract requires it); otherwise overwrite whatever is there. */
static bool update(struct record *record, bool look_up);
/* Copies the value if it fits; returns its size, or SIZE_MAX after an error. */
static size_t get(unsigned char *key, void *buffer, size_t capacity);
static void close_store(void);

/* Ends the process unless all is well. */
static void need(bool well, const char *what)
{
    if (well)
        return;
    fprintf(stderr, "bare loop: %s failed\n", what);
    exit(1);
}

int loop_open(struct loop *loop, const char *path, const struct kv_option *options, size_t count)
{
    (void)loop, (void)options, (void)count;
    open_store(path);
    return KV_OK;
}

int loop_close(struct loop *loop)
{
    (void)loop;
    close_store();
    return KV_OK;
}

static uint32_t slice(const struct loop *loop, const struct plan_item *item,
                      const unsigned char **value)
{
    uint64_t offset;
    uint32_t size;
    records_slice(&loop->values, item->number, item->version, &offset, &size);
    *value = loop->values.pool + offset;
    return size;
}

/* Plans up to `most` operations and prefetches what they write, as the harness does. */
static size_t plan_ahead(const struct loop *loop, struct plan *plan, struct plan_item *items,
                         size_t most)
{
    const unsigned char *value;
    size_t count = 0;
    for (; count < most && plan_next(plan, &items[count]); count++)
        if (items[count].operation != PLAN_GET)
            for (uint32_t size = slice(loop, &items[count], &value), at = 0; at < size; at += 64)
                __builtin_prefetch(value + at);
    return count;
}

/* Makes a record to write; its value is copied to `place`, where a program has just made it. */
static void make(const struct loop *loop, const struct plan_item *item, unsigned char *place,
                 struct record *record)
{
    const unsigned char *value;
    record->size = slice(loop, item, &value);
    record->value = memcpy(place, value, record->size);
    records_key(item->number, loop->stride, KEY, record->key);
}

int loop_load(struct loop *loop, struct plan *plan, size_t batch_records, struct loop_phase *phase)
{
    static struct record records[BARE_BATCH];
    static struct plan_item items[BARE_BATCH];
    need(batch_records <= BARE_BATCH && batch_records * loop->capacity <= loop->room, "batch");
    for (size_t count; (count = plan_ahead(loop, plan, items, batch_records)) > 0;) {
        for (size_t i = 0; i < count; i++)
            make(loop, &items[i], loop->value + i * loop->capacity, &records[i]);
        uint64_t start = now();
        bool well = write_batch(records, count);
        phase->tally.sum += now() - start;
        need(well, "write");
    }
    return KV_OK;
}

/* Gets end with the value in the buffer. An insert writes over whatever is there. */
int loop_run(struct loop *loop, struct plan *plan, uint64_t least, struct loop_phase *phases)
{
    struct tally *tally = &phases[PLAN_OPERATIONS].tally;
    struct plan_item items[BARE_AHEAD];
    struct record record;
    (void)least;
    for (size_t count; (count = plan_ahead(loop, plan, items, BARE_AHEAD)) > 0;)
        for (size_t i = 0; i < count; i++) {
            if (items[i].operation == PLAN_GET) {
                records_key(items[i].number, loop->stride, KEY, record.key);
                uint64_t start = now();
                size_t size = get(record.key, loop->buffer, loop->capacity);
                tally->sum += now() - start;
                need(size == records_size(&loop->values, items[i].number, items[i].version), "get");
            } else {
                make(loop, &items[i], loop->value, &record);
                uint64_t start = now();
                bool well = update(&record, items[i].operation == PLAN_UPDATE);
                tally->sum += now() - start;
                need(well, "update");
            }
        }
    return KV_OK;
}

#endif
