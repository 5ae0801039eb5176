/* The memory layout of the structures and the values of the constants that callers of libloop.so
 * use. Python builds its own structures from this text. */
#include "traffic.h"

#include <inttypes.h>
#include <stdio.h>

/* What a field is: an unsigned number, a text, bytes of its own, one of the structures, or else an
 * address. */
#define KIND(field)                                                                                \
    _Generic((field),                                                                              \
        int: "integer",                                                                            \
        unsigned: "number",                                                                        \
        unsigned long: "number",                                                                   \
        unsigned long long: "number",                                                              \
        const char *: "text",                                                                      \
        char *: "bytes",                                                                           \
        struct kv_slice: "kv_slice",                                                               \
        double: "real",                                                                            \
        struct records_values: "records_values",                                                   \
        struct tally_row: "tally_row",                                                             \
        struct tally: "tally",                                                                     \
        struct loop_pace: "loop_pace",                                                             \
        struct meter: "meter",                                                                     \
        struct meter_counts: "meter_counts",                                                       \
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
    FIELD(kv_driver, compact), FIELD(kv_driver, backup), FIELD(kv_driver, sync),
    FIELD(kv_driver, effective_options),
    WHOLE(kv_driver),
    FIELD(records_values, pool), FIELD(records_values, seed), FIELD(records_values, starts),
    FIELD(records_values, low), FIELD(records_values, span), WHOLE(records_values),
    FIELD(tally_row, n), FIELD(tally_row, sum), FIELD(tally_row, max), FIELD(tally_row, p99),
    WHOLE(tally_row), FIELD(tally_line, rows), FIELD(tally_line, room), FIELD(tally_line, used),
    FIELD(tally_line, start), FIELD(tally_line, recent), WHOLE(tally_line),
    FIELD(tally_second, line), FIELD(tally_second, row), FIELD(tally_second, bins),
    FIELD(tally_second, bin_count), FIELD(tally_second, index), FIELD(tally_second, until),
    WHOLE(tally_second), FIELD(tally, n), FIELD(tally, sum), FIELD(tally, min), FIELD(tally, max), FIELD(tally, bins),
    FIELD(tally, ticks), FIELD(tally, bin_count), FIELD(tally, tick_count), FIELD(tally, start),
    FIELD(tally, tick), FIELD(tally, second), WHOLE(tally), FIELD(plan_records, universe), FIELD(plan_records, born),
    FIELD(plan_records, loaded), FIELD(plan_records, state), FIELD(plan_records, dead),
    FIELD(plan_records, dead_count), FIELD(plan_records, seed), FIELD(plan_records, random),
    FIELD(plan_records, next),
    WHOLE(plan_records), FIELD(plan, records), FIELD(plan, source), FIELD(plan, operation),
    FIELD(plan, order), FIELD(plan, refused), FIELD(plan, backward),
    FIELD(plan, length), FIELD(plan, at),
    FIELD(plan, end), FIELD(plan, left), FIELD(plan, gets), FIELD(plan, updates),
    FIELD(plan, inserts), FIELD(plan, scans), FIELD(plan, listed_operation),
    FIELD(plan, listed_number), FIELD(plan, listed_version), FIELD(plan, seed),
    FIELD(plan, pending), FIELD(plan, low), FIELD(plan, high), FIELD(plan, certain), WHOLE(plan),
    FIELD(plan_item, number), FIELD(plan_item, operation), FIELD(plan_item, version),
    FIELD(plan_item, length), WHOLE(plan_item), FIELD(meter_counts, user_ns),
    FIELD(meter_counts, system_ns), FIELD(meter_counts, read_bytes),
    FIELD(meter_counts, write_bytes), FIELD(meter_counts, rchar), FIELD(meter_counts, wchar),
    FIELD(meter_counts, read_calls), FIELD(meter_counts, write_calls),
    FIELD(meter_counts, minor_faults), FIELD(meter_counts, major_faults),
    FIELD(meter_counts, syncs), FIELD(meter_counts, instructions),
    FIELD(meter_counts, device_read_bytes), FIELD(meter_counts, device_write_bytes),
    WHOLE(meter_counts), FIELD(meter, syncs), FIELD(meter, io), FIELD(meter, device),
    FIELD(meter, instructions), WHOLE(meter), FIELD(meter_debt, settled),
    FIELD(meter_debt, ns), FIELD(meter_debt, cpu_ns), FIELD(meter_debt, bytes), WHOLE(meter_debt), FIELD(loop_pace, rate),
    FIELD(loop_pace, exponential), FIELD(loop_pace, random), FIELD(loop_pace, start),
    FIELD(loop_pace, due), FIELD(loop_pace, elapsed), FIELD(loop_pace, waited),
    FIELD(loop_pace, late), FIELD(loop_pace, lateness), FIELD(loop_pace, idle), WHOLE(loop_pace),
    FIELD(loop_phase, tally), FIELD(loop_phase, used),
    FIELD(loop_phase, wall), FIELD(loop_phase, paused), FIELD(loop_phase, items), WHOLE(loop_phase),
    FIELD(loop, driver), FIELD(loop, kv), FIELD(loop, stride), FIELD(loop, key_size),
    FIELD(loop, values), FIELD(loop, buffer), FIELD(loop, value), FIELD(loop, capacity),
    FIELD(loop, room), FIELD(loop, pace), FIELD(loop, longest), FIELD(loop, meter), FIELD(loop, times),
    FIELD(loop, ended), FIELD(loop, entered), FIELD(loop, mark), FIELD(loop, error), WHOLE(loop),
    FIELD(loop_rounds, records), FIELD(loop_rounds, timed), FIELD(loop_rounds, order),
    FIELD(loop_rounds, burst), FIELD(loop_rounds, samples), FIELD(loop_rounds, least),
    FIELD(loop_rounds, batch),
    WHOLE(loop_rounds), FIELD(traffic, readers), FIELD(traffic, writers), FIELD(traffic, reads),
    FIELD(traffic, duration), FIELD(traffic, interval), FIELD(traffic, seed),
    FIELD(traffic, first), FIELD(traffic, among), FIELD(traffic, backup),
    FIELD(traffic, records), FIELD(traffic, read), FIELD(traffic, write), FIELD(traffic, both),
    FIELD(traffic, done), WHOLE(traffic),
    CONSTANT(KV_ABI), CONSTANT(KV_OK), CONSTANT(KV_NOT_FOUND), CONSTANT(KV_EXISTS),
    CONSTANT(KV_TOO_LARGE), CONSTANT(KV_ERROR), CONSTANT(KV_BATCH), CONSTANT(KV_SCAN),
    CONSTANT(KV_THREADS), CONSTANT(KV_FORGETS), CONSTANT(KV_WRITERS), CONSTANT(KV_PROCESSES), CONSTANT(KV_PUT), CONSTANT(KV_INSERT),
    CONSTANT(KV_UPDATE), CONSTANT(KV_REMOVE), CONSTANT(KV_FORWARD), CONSTANT(KV_BACKWARD),
    CONSTANT(PLAN_INSERT), CONSTANT(PLAN_GET), CONSTANT(PLAN_UPDATE), CONSTANT(PLAN_REMOVE),
    CONSTANT(PLAN_SCAN), CONSTANT(RECORDS_KEY_MAX), CONSTANT(STORE_ERROR),
    CONSTANT(PLAN_OPERATIONS), CONSTANT(TALLY_RECENT), CONSTANT(PLAN_DEAD), CONSTANT(PLAN_ALL),
    CONSTANT(PLAN_MISSING), CONSTANT(PLAN_SHUFFLED), CONSTANT(PLAN_DRAWN), CONSTANT(PLAN_DEAD_ONES),
    CONSTANT(PLAN_MIXED), CONSTANT(PLAN_LISTED), CONSTANT(PLAN_CHURNED), CONSTANT(PLAN_UNIFORM), CONSTANT(PLAN_SEQUENTIAL),
    CONSTANT(PLAN_ZIPFIAN), CONSTANT(PLAN_NEWEST), 
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
