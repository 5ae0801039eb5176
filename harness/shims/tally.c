#include "tally.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static const double PER_BIN = 50.498349764858006; /* 1 / ln 1.02 */
static const uint64_t SECOND = 1000000000;
static pthread_mutex_t storing = PTHREAD_MUTEX_INITIALIZER;

/* The 99th percentile of a row: the middle of its bin. */
static uint64_t p99(const struct tally_row *row, const uint64_t *bins)
{
    uint64_t rank = row->n - row->n / 100, place = 0;
    size_t bin = 0;
    while ((place += bins[bin]) < rank)
        bin++;
    uint64_t middle = (uint64_t)exp(((double)bin + 0.5) / PER_BIN);
    return middle < row->max ? middle : row->max;
}

/* Adds a thread's second to the row of all threads. Its p99 stays what it was when the others are so
 * far ahead that they have taken its bins. */
static void store(const struct tally_second *second)
{
    struct tally_line *line = second->line;
    struct tally_row *row = &line->rows[second->index];
    uint64_t *bins = line->recent + second->index % TALLY_RECENT * second->bin_count;
    if (row->n == 0 && line->used <= second->index + TALLY_RECENT)
        memset(bins, 0, second->bin_count * sizeof *bins);
    row->n += second->row.n;
    row->sum += second->row.sum;
    row->max = row->max < second->row.max ? second->row.max : row->max;
    if (line->used <= second->index + TALLY_RECENT) {
        for (size_t i = 0; i < second->bin_count; i++)
            bins[i] += second->bins[i];
        row->p99 = p99(row, bins);
    }
    if (line->used <= second->index)
        line->used = second->index + 1;
}

/* Keeps the second that is under way and begins the one in which `end` lies. */
static void roll(struct tally_second *second, uint64_t end)
{
    struct tally_line *line = second->line;
    if (second->row.n > 0 && second->index < line->room) {
        pthread_mutex_lock(&storing);
        store(second);
        pthread_mutex_unlock(&storing);
    }
    memset(second->bins, 0, second->bin_count * sizeof *second->bins);
    second->row = (struct tally_row){0};
    second->index = (end - line->start) / SECOND;
    second->until = line->start + (second->index + 1) * SECOND;
}

void tally_begin(struct tally *tally, uint64_t start)
{
    if (tally->second == NULL)
        return;
    tally->second->line->start = start;
    roll(tally->second, start);
}

void tally_end(struct tally *tally)
{
    if (tally->second != NULL)
        roll(tally->second, tally->second->until);
}

void tally_add(struct tally *tally, uint64_t end, uint64_t nanoseconds)
{
    size_t bin = (size_t)(log((double)(nanoseconds == 0 ? 1 : nanoseconds)) * PER_BIN);
    struct tally_second *second = tally->second;
    bin = bin < tally->bin_count ? bin : tally->bin_count - 1;
    tally->bins[bin]++;
    if (second != NULL) {
        if (end >= second->until)
            roll(second, end);
        second->bins[bin]++;
        second->row.n++;
        second->row.sum += nanoseconds;
        if (nanoseconds > second->row.max)
            second->row.max = nanoseconds;
    }
    if (tally->tick_count > 0) {
        uint64_t tick = (end - tally->start) / tally->tick;
        tally->ticks[tick < tally->tick_count ? tick : tally->tick_count - 1]++;
    }
    tally->sum += nanoseconds;
    if (tally->n++ == 0 || nanoseconds < tally->min)
        tally->min = nanoseconds;
    if (nanoseconds > tally->max)
        tally->max = nanoseconds;
}

void tally_merge(struct tally *tally, const struct tally *other)
{
    if (other->n == 0)
        return;
    if (tally->n == 0 || other->min < tally->min)
        tally->min = other->min;
    if (other->max > tally->max)
        tally->max = other->max;
    tally->n += other->n;
    tally->sum += other->sum;
    for (size_t i = 0; i < tally->bin_count; i++)
        tally->bins[i] += other->bins[i];
    for (size_t i = 0; i < tally->tick_count; i++)
        tally->ticks[i] += other->ticks[i];
}
