/* Latencies as counts in bins, as in histogram.py, with their exact number, sum, least and
 * greatest. */
#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>
#include <stdint.h>

/* The operations that ended in a second: their number; and in nanoseconds the sum, maximum and 99th
 * percentile of their latencies. */
struct tally_row {
    uint64_t n, sum, max, p99;
};

/* A timeline, which threads share. It has a row for each second since `start`, at most `room` rows.
 * The last of the `used` rows may be an incomplete second. */
struct tally_line {
    struct tally_row *rows;
    uint64_t room, used, start;
    uint64_t *recent; /* the bins of the last TALLY_RECENT seconds, of all threads together */
};
enum { TALLY_RECENT = 4 };

/* The current second of one thread, which ends at `until`. It has as many bins as the tallies that
 * point to it. */
struct tally_second {
    struct tally_line *line;
    struct tally_row row;
    uint64_t *bins;
    uint64_t bin_count, index, until;
};

/* The caller provides the arrays, filled with zeros. Bin i counts the operations that took 1.02^i
 * to 1.02^(i+1) ns. Tick i counts those that ended in the i-th tick of a run, which lasts `tick` ns
 * from `start`; without ticks none are counted. The last element of each array also counts
 * everything beyond it. `second`, unless NULL, is that of the thread; in a mix the tallies of all
 * kinds share it. */
struct tally {
    uint64_t n, sum, min, max; /* nanoseconds, all but n */
    uint64_t *bins, *ticks;
    size_t bin_count, tick_count;
    uint64_t start, tick;
    struct tally_second *second;
};

/* Counts an operation that ended at `end` and took `nanoseconds`. */
void tally_add(struct tally *tally, uint64_t end, uint64_t nanoseconds);

/* tally_begin begins a run at `start`, and tally_end completes its last second, if the tally has a
 * timeline. */
void tally_begin(struct tally *tally, uint64_t start);
void tally_end(struct tally *tally);

/* Adds the counts of another tally with the same numbers of bins and ticks. */
void tally_merge(struct tally *tally, const struct tally *other);

#endif
