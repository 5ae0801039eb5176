#include "plan.h"

#include <math.h>
#include <string.h>

static const uint64_t ROUND = UINT64_C(0xd6e8feb86659fd93); /* sets the rounds of a shuffle apart */
static const double SKEW = 0.99;                            /* of the zipfian order, as in YCSB */

static uint64_t draw(struct plan_records *records)
{
    return records_mix(records->random++);
}

/* A number from 0 to below `count`. */
static uint64_t draw_below(struct plan_records *records, uint64_t count)
{
    return (uint64_t)(((unsigned __int128)draw(records) * count) >> 64);
}

/* A number from 0 to below 1. */
static double draw_real(struct plan_records *records)
{
    return (double)(draw(records) >> 11) * 0x1p-53;
}

bool plan_exists(const struct plan_records *records, uint64_t number)
{
    return number < records->born && (records->state[number] & PLAN_DEAD) == 0;
}

void plan_bury(struct plan_records *records, uint64_t count)
{
    uint64_t start = draw_below(records, records->born);
    for (uint64_t i = 0; i < count; i++) {
        unsigned __int128 place = (unsigned __int128)i * records->born + start;
        records->dead[i] = (uint64_t)(place / count);
        records->state[records->dead[i]] |= PLAN_DEAD;
    }
    records->dead_count = count;
}

/* Ranks from 0 to `loaded` - 1, the k-th in proportion to (k + 1)^-SKEW: rejection-inversion
 * (Hoermann and Derflinger, 1996), which needs no table. */
static double integral(double x)
{
    return (pow(x, 1 - SKEW) - 1) / (1 - SKEW);
}

static double inverse(double y)
{
    return pow(1 + y * (1 - SKEW), 1 / (1 - SKEW));
}

static uint64_t draw_rank(struct plan *plan, uint64_t count)
{
    for (;;) {
        double y = plan->high + draw_real(plan->records) * (plan->low - plan->high);
        double x = inverse(y), rank = nearbyint(x);
        rank = rank<1 ? 1 : rank>(double) count ? (double)count : rank;
        if (rank - x <= plan->certain || y >= integral(rank + 0.5) - pow(rank, -SKEW))
            return (uint64_t)rank - 1;
    }
}

/* The place of a number in an order that looks random, without a table: a Feistel network over the
 * next power of four, walked on from what lies beyond the count. */
static uint64_t shuffled(uint64_t place, uint64_t count, uint64_t seed)
{
    unsigned bits = count < 2 ? 1 : 64 - (unsigned)__builtin_clzll(count - 1);
    unsigned half = (bits + 1) / 2;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = place >> half, right = place & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (records_mix(right + (seed + round) * ROUND) & mask);
            left = right;
            right = next;
        }
        place = left << half | right;
    } while (place >= count);
    return place;
}

void plan_begin(struct plan *plan)
{
    struct plan_records *records = plan->records;
    plan->seed = draw(records);
    plan->low = integral(1.5) - 1;
    plan->high = integral((double)records->loaded + 0.5);
    plan->certain = 2 - inverse(integral(2.5) - pow(2, -SKEW));
}

static uint64_t draw_number(struct plan *plan)
{
    struct plan_records *records = plan->records;
    uint64_t *next = &records->next[plan->operation % PLAN_SCAN], number;
    do {
        switch ((enum plan_order)plan->order) {
        case PLAN_SEQUENTIAL:
            number = (*next)++ % records->universe;
            break;
        case PLAN_ZIPFIAN: /* popular records lie scattered over the keys, not side by side */
            number = shuffled(draw_rank(plan, records->loaded), records->loaded, records->seed);
            break;
        case PLAN_NEWEST:
            number = records->born - 1 - draw_rank(plan, records->loaded);
            break;
        default:
            number = draw_below(records, records->born);
        }
    } while (!plan_exists(records, number));
    return number;
}

/* One of the dead: any, or the one that was removed first. */
static uint64_t draw_dead(struct plan *plan)
{
    struct plan_records *records = plan->records;
    bool first = plan->order == PLAN_SEQUENTIAL;
    uint64_t at = first ? 0 : draw_below(records, records->dead_count);
    uint64_t number = records->dead[at], left = --records->dead_count;
    if (first)
        memmove(records->dead, records->dead + 1, left * sizeof *records->dead);
    else
        records->dead[at] = records->dead[left];
    return number;
}

static void draw_mixed(struct plan *plan, struct plan_item *item)
{
    struct plan_records *records = plan->records;
    if (plan->pending > 0) { /* the second half of a read-modify-write */
        item->operation = PLAN_UPDATE;
        item->number = plan->pending - 1;
        plan->pending = 0;
        return;
    }
    uint64_t kind = draw(records) >> 32;
    item->number = draw_number(plan);
    if (kind < plan->gets) {
        item->operation = PLAN_GET;
    } else if (kind < plan->updates) {
        item->operation = PLAN_UPDATE;
    } else if (kind < plan->inserts) { /* at the end of the key space, with version 0 */
        item->operation = PLAN_INSERT;
        item->number = records->born++;
        records->state[item->number] = PLAN_DEAD | (RECORDS_VERSIONS - 1);
    } else if (kind < plan->scans) {
        uint64_t length = 1 + draw_below(records, PLAN_SCAN_MAX);
        uint64_t most = records->born - item->number;
        item->operation = PLAN_SCAN;
        item->length = (uint32_t)(length < most ? length : most);
    } else {
        item->operation = PLAN_GET;
        plan->pending = item->number + 1;
        plan->left++;
    }
}

/* None dead: nothing to insert. As many dead as may be: nothing is removed. */
static void draw_churn(struct plan *plan, struct plan_item *item)
{
    struct plan_records *records = plan->records;
    uint64_t kind = draw(records) >> 32;
    bool remove = kind < plan->inserts;
    if (kind < plan->updates || plan->end == 0)
        item->operation = PLAN_UPDATE;
    else if (records->dead_count == 0 || (remove && records->dead_count < plan->end))
        item->operation = PLAN_REMOVE;
    else
        item->operation = PLAN_INSERT;
    item->number = item->operation == PLAN_INSERT ? draw_dead(plan) : draw_number(plan);
}

static bool find_in_order(struct plan *plan, struct plan_item *item)
{
    while (plan->at < plan->end) {
        item->number = plan->backward ? --plan->end : plan->at++;
        if (plan_exists(plan->records, item->number) == (plan->source == PLAN_ALL))
            return true;
    }
    return false;
}

/* What comes next, but for its version; false when there is nothing. */
static bool choose(struct plan *plan, struct plan_item *item)
{
    item->operation = plan->operation;
    item->length = plan->length > 0 ? plan->length : 1;
    if (plan->left == 0)
        return false;
    plan->left--;
    switch ((enum plan_source)plan->source) {
    case PLAN_ALL:
    case PLAN_MISSING:
        return find_in_order(plan, item);
    case PLAN_SHUFFLED:
        do {
            if (plan->at == plan->records->loaded)
                return false;
            item->number = shuffled(plan->at++, plan->records->loaded, plan->seed);
        } while (!plan_exists(plan->records, item->number));
        return true;
    case PLAN_DRAWN:
        item->number = draw_number(plan);
        return true;
    case PLAN_DEAD_ONES:
        item->number = draw_dead(plan);
        return true;
    case PLAN_MIXED:
        draw_mixed(plan, item);
        return true;
    case PLAN_CHURNED:
        draw_churn(plan, item);
        return true;
    case PLAN_LISTED:
        item->operation = plan->listed_operation[plan->at];
        item->number = plan->listed_number[plan->at];
        item->version = plan->listed_version[plan->at++];
        return true;
    }
    return false;
}

bool plan_next(struct plan *plan, struct plan_item *item)
{
    struct plan_records *records = plan->records;
    if (!choose(plan, item))
        return false;
    if (plan->source == PLAN_LISTED)
        return true;
    uint8_t *state = &records->state[item->number];
    bool insert = item->operation == PLAN_INSERT && !plan_exists(records, item->number);
    bool rewrite = insert || item->operation == PLAN_UPDATE;
    item->version = (*state + (rewrite || plan->refused)) % RECORDS_VERSIONS;
    if (plan->refused)
        return true;
    if (rewrite)
        *state = (uint8_t)item->version;
    if (item->operation == PLAN_REMOVE) {
        *state |= PLAN_DEAD;
        bool returns = plan->source == PLAN_DRAWN || plan->source == PLAN_CHURNED;
        if (returns && records->dead != NULL) /* in rounds, and in churn */
            records->dead[records->dead_count++] = item->number;
    }
    return true;
}

void plan_total(struct plan *plan, const struct records_values *values, uint64_t *count,
                uint64_t *bytes)
{
    struct plan_item item;
    *count = *bytes = 0;
    for (; plan_next(plan, &item); ++*count)
        *bytes += records_size(values, item.number, item.version);
}
