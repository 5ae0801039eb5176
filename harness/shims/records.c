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

void records_mix_each(size_t count, uint64_t *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] = records_mix(x[i]);
}

static void put_big_endian(unsigned char *bytes, uint64_t x)
{
    for (int i = 7; i >= 0; i--, x >>= 8)
        bytes[i] = (unsigned char)x;
}

void records_key(uint64_t number, uint64_t stride, unsigned char key[RECORDS_KEY_SIZE])
{
    put_big_endian(key, number * stride);
    put_big_endian(key + 8, records_mix(number));
}

void records_key_each(size_t count, const uint64_t *number, uint64_t stride, unsigned char *keys)
{
    for (size_t i = 0; i < count; i++)
        records_key(number[i], stride, keys + i * RECORDS_KEY_SIZE);
}

void records_value(const struct records_values *values, uint64_t number, uint32_t version,
                   uint32_t *offset, uint32_t *size)
{
    uint64_t bits = records_mix(records_mix(number ^ values->seed) + version);
    *offset = (uint32_t)((bits >> 32) % values->starts);
    *size = values->low + (uint32_t)((bits & UINT32_MAX) % values->span);
}

void records_value_each(const struct records_values *values, size_t count, const uint64_t *number,
                        const uint32_t *version, uint32_t *offset, uint32_t *size)
{
    for (size_t i = 0; i < count; i++)
        records_value(values, number[i], version[i], &offset[i], &size[i]);
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
