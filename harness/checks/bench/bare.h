/* What a program would write by hand on an engine's own interface: open, fill in batches, update,
 * get. There is no contract, no shim and no check of an answer beyond its presence and size. Plans,
 * copies and clock reads are those of the harness, so the ratio of the two times is the harness's
 * own cost. Values are those of the harness without their tag, by which it checks them.
 *
 * Each engine is one file, compiled to one shared object: it includes this header, which has the
 * functions of loop.h, and defines the five static functions below, which the compiler inlines. In a
 * library compiled with LOOK_UP=0 a write asks for nothing and writes over whatever is there.
 * Durability is `process` as in kv.h: nothing is synced. An error ends the process with a message. */
#ifndef BARE_H
#define BARE_H

#include "../../shims/clock.h"
#include "../../shims/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LOOK_UP
#define LOOK_UP 1
#endif

enum { BARE_BATCH = 1000, BARE_AHEAD = 32, KEY = 16 };

struct record {
    unsigned char key[KEY];
    const void *value;
    size_t size;
};

/* Creates the store in an empty folder. */
static void open_store(const char *folder);
static bool write_batch(struct record *records, size_t count);
/* Inserts, updates or removes a record. With LOOK_UP it first finds out whether the key exists, if
 * the engine's own call does not say so, and fails as the contract requires. */
static bool write_one(struct record *record, enum plan_operation operation);
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
        if (items[count].operation == PLAN_INSERT || items[count].operation == PLAN_UPDATE)
            for (uint32_t size = slice(loop, &items[count], &value), at = 0; at < size; at += 64)
                __builtin_prefetch(value + at);
    return count;
}

/* Copies a value to `place`, where a program has just made it; returns its size. Not inlined, so
 * that its instructions can be counted apart. */
__attribute__((noinline)) static uint32_t
make_value(const struct loop *loop, const struct plan_item *item, unsigned char *place)
{
    const unsigned char *value;
    uint32_t size = slice(loop, item, &value);
    memcpy(place, value, size);
    return size;
}

/* Makes a record to write, or the key of one to remove. */
static void make(const struct loop *loop, const struct plan_item *item, unsigned char *place,
                 struct record *record)
{
    record->size = item->operation == PLAN_REMOVE ? 0 : make_value(loop, item, place);
    record->value = place;
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

/* Gets end with the value in the buffer. */
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
                bool well = write_one(&record, (enum plan_operation)items[i].operation);
                tally->sum += now() - start;
                need(well, "write");
            }
        }
    return KV_OK;
}

#endif
