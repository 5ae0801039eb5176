/* Latencies as counts in bins, as in histogram.py, beside their exact number, sum, least and
 * greatest. */
#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>
#include <stdint.h>

/* The caller provides the arrays, filled with zeros. Bin i counts the operations that took 1.02^i
 * to 1.02^(i+1) ns. Tick i counts those that ended in the i-th tick of a run, which lasts `tick`
 * ns from `start`; without ticks none are counted. The last element counts all beyond it. */
struct tally {
    uint64_t n, sum, min, max; /* nanoseconds, all but n */
    uint64_t *bins, *ticks;
    size_t bin_count, tick_count;
    uint64_t start, tick;
};

/* Counts an operation that ended at `end` and took so many nanoseconds. */
void tally_add(struct tally *tally, uint64_t end, uint64_t nanoseconds);

/* Adds the counts of another one with as many bins and ticks. */
void tally_merge(struct tally *tally, const struct tally *other);

#endif
