/* The records of the liar in memory, in the order of their keys. No bug is planted here. */
#ifndef MEMORY_H
#define MEMORY_H

#include "files.h"

/* Before each key in a log or an index. The index ends with one without a key. */
struct head {
    uint64_t sum; /* in a log, of this record; in an index, of all up to here */
    uint32_t key_size, value_size;
};

#define REMOVED UINT32_MAX /* as the size of a value in the log */

struct memory {
    struct kv_record *records; /* the key's data is one allocation with the value's */
    size_t count, room;
};

/* FNV-1a of the sizes, the key and the value, continued from `sum`. */
static uint64_t summed(uint64_t sum, struct head head, const void *key, const void *value)
{
    const void *parts[] = {&head.key_size, key, value};
    size_t sizes[] = {2 * sizeof head.key_size, head.key_size,
                      head.value_size == REMOVED ? 0 : head.value_size};
    for (int part = 0; part < 3; part++)
        for (size_t i = 0; i < sizes[part]; i++)
            sum = (sum ^ ((const unsigned char *)parts[part])[i]) * 0x100000001b3u;
    return sum;
}

/* Whether a key is there; *place is where it is or would be. */
static bool find(const struct memory *memory, struct kv_slice key, size_t *place)
{
    size_t low = 0, high = memory->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        struct kv_slice at = memory->records[middle].key;
        int order = memcmp(at.data, key.data, at.size < key.size ? at.size : key.size);
        if (order < 0 || (order == 0 && at.size < key.size))
            low = middle + 1;
        else
            high = middle;
    }
    *place = low;
    return low < memory->count && kv_same(memory->records[low].key, key);
}

/* Stores a record in memory, or removes it. */
static int keep(struct memory *memory, struct kv_slice key, struct kv_slice value, bool removed)
{
    size_t place;
    bool found = find(memory, key, &place);
    if (!found && !removed && memory->count == memory->room) {
        size_t room = 2 * memory->room + 64;
        void *grown = reallocarray(memory->records, room, sizeof *memory->records);
        if (grown == NULL)
            return kv_fail("out of memory");
        memory->records = grown, memory->room = room;
    }
    char *copy = removed ? NULL : malloc(key.size + value.size);
    if (!removed && copy == NULL)
        return kv_fail("out of memory");
    struct kv_record *at = memory->records + place;
    if (found)
        free((void *)(uintptr_t)at->key.data);
    if (found && removed)
        memmove(at, at + 1, (--memory->count - place) * sizeof *at);
    if (!found && !removed)
        memmove(at + 1, at, (memory->count++ - place) * sizeof *at);
    if (!removed) {
        memcpy(mempcpy(copy, key.data, key.size), value.data, value.size);
        *at = (struct kv_record){{copy, key.size}, {copy + key.size, value.size}};
    }
    return KV_OK;
}

/* Visits the records as kv.h says. */
static void visit_all(const struct memory *memory, struct kv_slice from,
                      enum kv_direction direction, kv_visit visit, void *context)
{
    size_t place;
    bool found = find(memory, from, &place);
    if (direction == KV_BACKWARD)
        place = found ? place : place - 1; /* the last key not greater, or none: SIZE_MAX */
    while (place < memory->count) {
        struct kv_record record = memory->records[place];
        if (visit(context, record.key, record.value) != 0)
            return;
        place += direction == KV_FORWARD ? 1 : SIZE_MAX;
    }
}

static void forget_all(struct memory *memory)
{
    for (size_t i = 0; i < memory->count; i++)
        free((void *)(uintptr_t)memory->records[i].key.data);
    free(memory->records);
}

/* A sorted copy of all records: the index, and the values. To be freed, even after an error. */
static int copy_records(const struct memory *memory, struct bytes *index, struct bytes *values)
{
    FILE *heads = open_memstream(&index->data, &index->size);
    FILE *rest = open_memstream(&values->data, &values->size);
    struct head head = {0};
    for (size_t i = 0; heads != NULL && rest != NULL && i < memory->count; i++) {
        struct kv_slice key = memory->records[i].key, value = memory->records[i].value;
        head = (struct head){head.sum, (uint32_t)key.size, (uint32_t)value.size};
        head.sum = summed(head.sum, head, key.data, value.data);
        fwrite(&head, sizeof head, 1, heads);
        fwrite(key.data, 1, key.size, heads);
        fwrite(value.data, 1, value.size, rest);
    }
    head = (struct head){head.sum, 0, 0};
    if (heads != NULL)
        fwrite(&head, sizeof head, 1, heads);
    bool whole = heads != NULL && fclose(heads) == 0;
    whole = rest != NULL && fclose(rest) == 0 && whole;
    return whole ? KV_OK : kv_fail("out of memory");
}

/* Stores the records of such a copy. One that is not whole is an error. */
static int keep_copied(struct memory *memory, struct bytes index, struct bytes values)
{
    struct head head = {.key_size = 1};
    int status = KV_OK;
    for (uint64_t sum = 0; status == KV_OK && head.key_size > 0; sum = head.sum) {
        bool whole = index.size >= sizeof head;
        if (whole) {
            memcpy(&head, index.data, sizeof head);
            index = (struct bytes){index.data + sizeof head, index.size - sizeof head};
        }
        whole = whole && head.key_size <= index.size && head.value_size <= values.size;
        if (whole && head.key_size > 0)
            sum = summed(sum, head, index.data, values.data);
        if (!whole || head.sum != sum)
            return kv_fail("the index or the values are damaged");
        if (head.key_size > 0)
            status = keep(memory, (struct kv_slice){index.data, head.key_size},
                          (struct kv_slice){values.data, head.value_size}, false);
        index = (struct bytes){index.data + head.key_size, index.size - head.key_size};
        values = (struct bytes){values.data + head.value_size, values.size - head.value_size};
    }
    return status;
}

#endif
