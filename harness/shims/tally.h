/* Latencies as counts in bins, as in histogram.py, beside their exact number, sum, least and
 * greatest. */
#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>
#include <stdint.h>

/* The operations that ended in a second: their number, and in nanoseconds their sum, the greatest
 * and the 99th percentile. */
struct tally_row {
    uint64_t n, sum, max, p99;
};

/* A row for each second since `start`, and none beyond `room` of them; the last of `used` may be an
 * incomplete second. Threads share it. */
struct tally_line {
    struct tally_row *rows;
    uint64_t room, used, start;
    uint64_t *recent; /* the bins of the last TALLY_RECENT seconds, of all threads together */
};
enum { TALLY_RECENT = 4 };

/* The second that is under way in one thread, from `start` to `until`; it has as many bins as the
 * tallies that point to it. */
struct tally_second {
    struct tally_line *line;
    struct tally_row row;
    uint64_t *bins;
    uint64_t bin_count, index, until;
};

/* The caller provides the arrays, filled with zeros. Bin i counts the operations that took 1.02^i
 * to 1.02^(i+1) ns. Tick i counts those that ended in the i-th tick of a run, which lasts `tick`
 * ns from `start`; without ticks none are counted. The last element counts all beyond it.
 * `second`, unless NULL, is that of the thread: a mix has one for the tallies of all kinds. */
struct tally {
    uint64_t n, sum, min, max; /* nanoseconds, all but n */
    uint64_t *bins, *ticks;
    size_t bin_count, tick_count;
    uint64_t start, tick;
    struct tally_second *second;
};

/* Counts an operation that ended at `end` and took so many nanoseconds. */
void tally_add(struct tally *tally, uint64_t end, uint64_t nanoseconds);

/* Begins a run at `start`, and keeps its last second, where the tally has one. */
void tally_begin(struct tally *tally, uint64_t start);
void tally_end(struct tally *tally);

/* Adds the counts of another one with as many bins and ticks. */
void tally_merge(struct tally *tally, const struct tally *other);

#endif
