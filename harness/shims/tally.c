#include "tally.h"

#include <math.h>

void tally_add(struct tally *tally, uint64_t end, uint64_t nanoseconds)
{
    static const double per_bin = 50.498349764858006; /* 1 / ln 1.02 */
    size_t bin = (size_t)(log((double)(nanoseconds == 0 ? 1 : nanoseconds)) * per_bin);
    tally->bins[bin < tally->bin_count ? bin : tally->bin_count - 1]++;
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
