/* The memory layout of the structures and the values of the constants that callers of libloop.so
 * use. Python builds its own structures from this text. */
#include "meter.h"
#include "traffic.h"

#include <inttypes.h>
#include <stdio.h>

/* What a field is: a number, unsigned or not, a text, bytes of its own, one of the structures, or
 * else an address. */
#define KIND(field)                                                                                \
    _Generic((field),                                                                              \
        int: "integer",                                                                            \
        unsigned: "number",                                                                        \
        unsigned long: "number",                                                                   \
        unsigned long long: "number",                                                              \
        const char *: "text",                                                                      \
        char *: "bytes",                                                                           \
        struct kv_slice: "kv_slice",                                                               \
        struct records_values: "records_values",                                                   \
        struct loop_pace: "loop_pace",                                                             \
        struct traffic_tally: "traffic_tally",                                                     \
        default: "address")
#define FIELD(type, field)                                                                         \
    {#type, #field, KIND(((struct type *)NULL)->field), offsetof(struct type, field),              \
     sizeof(((struct type *)NULL)->field)}
#define WHOLE(type) {#type, "", "", 0, sizeof(struct type)}
#define CONSTANT(name) {"", #name, "", 0, name}

/* clang-format off */
static const struct {
    const char *type, *field, *kind;
    size_t offset, size;
} layout[] = {
    FIELD(kv_slice, data), FIELD(kv_slice, size), WHOLE(kv_slice),
    FIELD(kv_record, key), FIELD(kv_record, value), WHOLE(kv_record),
    FIELD(kv_option, name), FIELD(kv_option, value), WHOLE(kv_option),
    FIELD(kv_setting, name), FIELD(kv_setting, value), FIELD(kv_setting, least),
    FIELD(kv_setting, means), FIELD(kv_setting, lacks), WHOLE(kv_setting),
    FIELD(kv_driver, abi), FIELD(kv_driver, capabilities), FIELD(kv_driver, name),
    FIELD(kv_driver, max_key), FIELD(kv_driver, max_value), FIELD(kv_driver, settings),
    FIELD(kv_driver, default_durability), FIELD(kv_driver, version), FIELD(kv_driver, error),
    FIELD(kv_driver, open), FIELD(kv_driver, close), FIELD(kv_driver, begin),
    FIELD(kv_driver, end), FIELD(kv_driver, get), FIELD(kv_driver, write), FIELD(kv_driver, scan),
    FIELD(kv_driver, compact), FIELD(kv_driver, sync), FIELD(kv_driver, effective_options),
    WHOLE(kv_driver),
    FIELD(records_values, seed), FIELD(records_values, starts), FIELD(records_values, low),
    FIELD(records_values, span), WHOLE(records_values),
    FIELD(loop_plan, count), FIELD(loop_plan, operation), FIELD(loop_plan, number),
    FIELD(loop_plan, offset), FIELD(loop_plan, size), WHOLE(loop_plan),
    FIELD(loop_pace, rate), FIELD(loop_pace, start), FIELD(loop_pace, done),
    FIELD(loop_pace, left), WHOLE(loop_pace),
    FIELD(loop, driver), FIELD(loop, kv), FIELD(loop, pool), FIELD(loop, stride),
    FIELD(loop, key_size), FIELD(loop, values), FIELD(loop, buffer), FIELD(loop, value),
    FIELD(loop, capacity), FIELD(loop, pace), FIELD(loop, error), WHOLE(loop),
    FIELD(traffic_tally, n), FIELD(traffic_tally, sum), FIELD(traffic_tally, min),
    FIELD(traffic_tally, max), FIELD(traffic_tally, bins), FIELD(traffic_tally, ticks),
    FIELD(traffic_tally, bin_count), FIELD(traffic_tally, tick_count), WHOLE(traffic_tally),
    FIELD(traffic, readers), FIELD(traffic, reads), FIELD(traffic, duration),
    FIELD(traffic, interval), FIELD(traffic, tick), FIELD(traffic, records), FIELD(traffic, seed),
    FIELD(traffic, version), FIELD(traffic, read), FIELD(traffic, write), FIELD(traffic, elapsed),
    WHOLE(traffic),
    FIELD(meter, syncs), FIELD(meter, io), FIELD(meter, device), FIELD(meter, instructions),
    WHOLE(meter),
    FIELD(meter_counts, user_ns), FIELD(meter_counts, system_ns), FIELD(meter_counts, read_bytes),
    FIELD(meter_counts, write_bytes), FIELD(meter_counts, rchar), FIELD(meter_counts, wchar),
    FIELD(meter_counts, read_calls), FIELD(meter_counts, write_calls),
    FIELD(meter_counts, minor_faults), FIELD(meter_counts, major_faults),
    FIELD(meter_counts, syncs), FIELD(meter_counts, instructions),
    FIELD(meter_counts, device_read_bytes), FIELD(meter_counts, device_write_bytes),
    WHOLE(meter_counts),
    FIELD(meter_debt, settled), FIELD(meter_debt, ns), FIELD(meter_debt, cpu_ns),
    FIELD(meter_debt, bytes), WHOLE(meter_debt),
    CONSTANT(KV_ABI), CONSTANT(KV_OK), CONSTANT(KV_NOT_FOUND), CONSTANT(KV_EXISTS),
    CONSTANT(KV_TOO_LARGE),
    CONSTANT(KV_ERROR), CONSTANT(KV_BATCH), CONSTANT(KV_SCAN), CONSTANT(KV_THREADS),
    CONSTANT(KV_FORGETS), CONSTANT(KV_PUT), CONSTANT(KV_INSERT), CONSTANT(KV_UPDATE),
    CONSTANT(KV_REMOVE), CONSTANT(KV_FORWARD), CONSTANT(KV_BACKWARD), CONSTANT(LOOP_INSERT),
    CONSTANT(LOOP_GET), CONSTANT(LOOP_UPDATE), CONSTANT(LOOP_REMOVE), CONSTANT(LOOP_SCAN),
    CONSTANT(LOOP_END), CONSTANT(LOOP_SCAN_MAX), CONSTANT(RECORDS_KEY_SIZE), CONSTANT(STORE_ERROR),
};
/* clang-format on */

/* Writes a line for each field, "type field kind offset size", for each whole structure, "type
 * size", and for each constant, "name=value". Returns the length, as snprintf does. */
size_t layout_text(char *text, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        size_t room = used < capacity ? capacity - used : 0;
        char *end = room > 0 ? text + used : NULL;
        if (layout[i].type[0] == '\0')
            used += (size_t)snprintf(end, room, "%s=%zu\n", layout[i].field, layout[i].size);
        else if (layout[i].field[0] == '\0')
            used += (size_t)snprintf(end, room, "%s %zu\n", layout[i].type, layout[i].size);
        else
            used +=
                (size_t)snprintf(end, room, "%s %s %s %zu %zu\n", layout[i].type, layout[i].field,
                                 layout[i].kind, layout[i].offset, layout[i].size);
    }
    return used;
}
