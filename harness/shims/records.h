/* Keys and values. Both follow from a record's number: the key is computed from it, and the value
 * is a slice of a pool with a tag. So both are cheap to make, and an answer is checked without
 * reading the pool again, which would evict the engine's data from the processor's cache. */
#ifndef RECORDS_H
#define RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECORDS_KEY_MAX = 64,   /* bytes of the longest key */
    RECORDS_TAG = 4,        /* bytes at the end of a value: a checksum of the others */
    RECORDS_VERSIONS = 128, /* version 128 is version 0 again */
};

/* Writes the key of a number: records_key_room(size) bytes, of which the first `size` are the key.
 * Keys are spread evenly over the key space, in the order of their numbers. The first 8 bytes are
 * number * stride, big-endian. The next 8 bytes are mixed from the number, and each further 8 bytes
 * from the previous 8, so that these do not compress. With a stride of floor((2^64 - 1) /
 * universe), the numbers 0 to universe - 1 differ in the first 8 bytes. */
void records_key(uint64_t number, uint64_t stride, size_t size, unsigned char *key);
static inline size_t records_key_room(size_t size)
{
    return size <= 16 ? 16 : (size + 7) / 8 * 8;
}
/* Writes the keys of `count` numbers, at intervals of records_key_room(size) bytes. */
void records_key_each(size_t count, const uint64_t *number, uint64_t stride, size_t size,
                      unsigned char *keys);

/* Where the values of a cell's records begin in the pool, and how large they are. */
struct records_values {
    const unsigned char *pool;
    uint64_t seed;
    uint64_t starts;    /* they begin at byte 0 to starts - 1, below 2^32 */
    uint32_t low, span; /* they have low to low + span - 1 bytes */
};

/* The offset and size of the slice of the pool from which a value is made. This rule is implemented
 * only here. */
void records_slice(const struct records_values *values, uint64_t number, uint32_t version,
                   uint64_t *offset, uint32_t *size);
uint32_t records_size(const struct records_values *values, uint64_t number, uint32_t version);

/* Writes the value of a record's version, and returns its size. Its last RECORDS_TAG bytes are a
 * checksum of the others, the number and the version. One bit of the checksum is the last bit of
 * the version, so even a value of one byte changes with each version; otherwise an engine might
 * skip the update. */
uint32_t records_value(const struct records_values *values, uint64_t number, uint32_t version,
                       unsigned char *bytes);

/* Whether these bytes are that value. A wrong value passes with a probability of 2^-32. */
bool records_is_value(const struct records_values *values, uint64_t number, uint32_t version,
                      const void *bytes, size_t size);

/* One step of SplitMix64 from a counter: 64 well-mixed bits. */
uint64_t records_mix(uint64_t x);

/* Fills a pool of `size` bytes from a seed: with bytes that no compressor shrinks, or with words
 * whose frequencies fall as those of a language do (Zipf's law). */
void records_fill_incompressible(unsigned char *pool, size_t size, uint64_t seed);
void records_fill_compressible(unsigned char *pool, size_t size, uint64_t seed);

#endif
