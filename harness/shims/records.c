#include "records.h"

#include <string.h>

/* S. Vigna's constants. */
uint64_t records_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void put_big_endian(unsigned char *bytes, uint64_t x)
{
    for (int i = 7; i >= 0; i--, x >>= 8)
        bytes[i] = (unsigned char)x;
}

void records_key(uint64_t number, uint64_t stride, size_t size, unsigned char *key)
{
    uint64_t mixed = records_mix(number);
    put_big_endian(key, number * stride);
    put_big_endian(key + 8, mixed);
    for (size_t at = 16; at < size; at += 8) {
        mixed = records_mix(mixed);
        put_big_endian(key + at, mixed);
    }
}

void records_key_each(size_t count, const uint64_t *number, uint64_t stride, size_t size,
                      unsigned char *keys)
{
    for (size_t i = 0; i < count; i++)
        records_key(number[i], stride, size, keys + i * records_key_room(size));
}

void records_slice(const struct records_values *values, uint64_t number, uint32_t version,
                   uint64_t *offset, uint32_t *size)
{
    uint64_t bits = records_mix(records_mix(number ^ values->seed) + version);
    *offset = (bits >> 32) * values->starts >> 32;
    *size = values->low + (uint32_t)((bits & UINT32_MAX) * values->span >> 32);
}

uint32_t records_size(const struct records_values *values, uint64_t number, uint32_t version)
{
    uint64_t offset;
    uint32_t size;
    records_slice(values, number, version, &offset, &size);
    return size;
}

enum { LANES = 8, WORD = 8, BLOCK = LANES * WORD };

/* For given other words each word has another result, since the factor is odd. */
static inline uint64_t take_word(uint64_t lane, const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, WORD);
    word ^= lane;
    return (word << 29 | word >> 35) * UINT64_C(0x9e3779b97f4a7c15);
}

/* A checksum, of eight words at a time: the processor multiplies them beside each other. */
static uint64_t digest(const unsigned char *bytes, size_t size, uint64_t seed)
{
    unsigned char rest[BLOCK] = {0};
    uint64_t lane[LANES], sum = seed;
    for (uint64_t k = 0; k < LANES; k++)
        lane[k] = seed + k;
    for (; size >= BLOCK; size -= BLOCK, bytes += BLOCK)
#pragma GCC unroll 8
        for (int k = 0; k < LANES; k++)
            lane[k] = take_word(lane[k], bytes + k * WORD);
    memcpy(rest, bytes, size);
    for (size_t k = 0; k * WORD < size; k++)
        lane[k] = take_word(lane[k], rest + k * WORD);
    for (int k = 0; k < LANES; k++)
        sum = take_word(sum, (const unsigned char *)&lane[k]);
    return records_mix(sum);
}

/* The tag of a value whose other bytes are these. */
static void make_tag(const struct records_values *values, uint64_t number, uint32_t version,
                     const unsigned char *bytes, size_t size, unsigned char tag[RECORDS_TAG])
{
    uint64_t name = records_mix(number ^ values->seed) + version;
    uint64_t bits = digest(bytes, size, records_mix(name ^ size));
    memcpy(tag, &bits, RECORDS_TAG);
    tag[0] = (unsigned char)((tag[0] & ~1U) | (version & 1)); /* unlike the version before */
}

uint32_t records_value(const struct records_values *values, uint64_t number, uint32_t version,
                       unsigned char *bytes)
{
    unsigned char tag[RECORDS_TAG];
    uint64_t offset;
    uint32_t size;
    records_slice(values, number, version, &offset, &size);
    uint32_t tagged = size < RECORDS_TAG ? size : RECORDS_TAG, body = size - tagged;
    memcpy(bytes, values->pool + offset, body);
    make_tag(values, number, version, bytes, body, tag);
    memcpy(bytes + body, tag, tagged);
    return size;
}

bool records_is_value(const struct records_values *values, uint64_t number, uint32_t version,
                      const void *bytes, size_t size)
{
    unsigned char tag[RECORDS_TAG];
    const unsigned char *found = bytes;
    size_t tagged = size < RECORDS_TAG ? size : RECORDS_TAG;
    if (size != records_size(values, number, version))
        return false;
    make_tag(values, number, version, found, size - tagged, tag);
    return memcmp(found + size - tagged, tag, tagged) == 0;
}

void records_fill_incompressible(unsigned char *pool, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t bits = records_mix(seed + i);
        memcpy(pool + i, &bits, size - i < 8 ? size - i : 8);
    }
}

enum { WORDS_LOG2 = 11, WORD_MAX = 10 };

/* A word of 2 to WORD_MAX letters; common letters come up more often than rare ones. */
static size_t make_word(char *word, uint64_t bits)
{
    static const char letters[] = "eeeetttaaaooiinnsshhrrdlucmfwyp";
    size_t length = 2 + bits % (WORD_MAX - 1);
    bits = records_mix(bits);
    for (size_t i = 0; i < length; i++, bits >>= 6)
        word[i] = letters[(bits & 63) % (sizeof letters - 1)];
    return length;
}

void records_fill_compressible(unsigned char *pool, size_t size, uint64_t seed)
{
    uint64_t state = records_mix(seed);
    for (size_t used = 0; used < size;) {
        uint64_t bits = records_mix(state++);
        /* A rank whose logarithm is uniform has a frequency that falls as 1/rank. */
        unsigned octave = bits % WORDS_LOG2;
        uint64_t rank = (UINT64_C(1) << octave) + ((bits >> 8) & ((UINT64_C(1) << octave) - 1));
        char word[WORD_MAX + 1];
        size_t length = make_word(word, records_mix(rank));
        word[length++] = ' ';
        if (length > size - used)
            length = size - used;
        memcpy(pool + used, word, length);
        used += length;
    }
}
