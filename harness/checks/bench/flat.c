#include "bare.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 2 * RECORDS_KEY_SIZE + 1 };

static int folder;

void bare_open(const char *path)
{
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    need(folder >= 0, "open");
}

static void make_name(const unsigned char key[RECORDS_KEY_SIZE], char name[NAME])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < RECORDS_KEY_SIZE; i++) {
        name[2 * i] = digits[key[i] >> 4];
        name[2 * i + 1] = digits[key[i] & 15];
    }
    name[2 * RECORDS_KEY_SIZE] = '\0';
}

static bool write_file(const unsigned char *key, int flags, const void *value, size_t size)
{
    char name[NAME];
    make_name(key, name);
    int file = openat(folder, name, O_WRONLY | O_TRUNC | O_CLOEXEC | flags, 0666);
    return file >= 0 && write(file, value, size) == (ssize_t)size && close(file) == 0;
}

void bare_fill(const struct bare *bare, const struct bench_plan *plan, size_t batch,
               uint64_t *nanoseconds)
{
    static unsigned char keys[BARE_BATCH][RECORDS_KEY_SIZE];
    for (size_t first = 0, n = 0, count; first < plan->count; first += count, n++) {
        bool well = true;
        count = batch_keys(bare, plan, first, batch, keys);
        uint64_t start = now();
        for (size_t i = 0; i < count && well; i++)
            well = write_file(keys[i], O_CREAT, bare->pool + plan->offset[first + i],
                              plan->size[first + i]);
        nanoseconds[n] = now() - start;
        need(well, "write");
    }
}

/* An open that does not create tells whether there was such a file. */
void bare_update(const struct bare *bare, const struct bench_plan *plan, bool look_up,
                 uint64_t *nanoseconds)
{
    (void)look_up;
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char key[RECORDS_KEY_SIZE];
        records_key(plan->number[i], bare->stride, key);
        const void *value = fresh(bare, plan, i);
        uint64_t start = now();
        bool well = write_file(key, 0, value, plan->size[i]);
        nanoseconds[i] = now() - start;
        need(well, "update");
    }
}

void bare_get(const struct bare *bare, const struct bench_plan *plan, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char key[RECORDS_KEY_SIZE];
        char name[NAME];
        struct stat status = {0};
        records_key(plan->number[i], bare->stride, key);
        uint64_t start = now();
        make_name(key, name);
        int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
        bool well = file >= 0 && fstat(file, &status) == 0 &&
                    (size_t)status.st_size <= bare->capacity &&
                    read(file, bare->buffer, (size_t)status.st_size) == status.st_size &&
                    close(file) == 0;
        nanoseconds[i] = now() - start;
        need(well && (size_t)status.st_size == plan->size[i], "get");
    }
}

void bare_close(void)
{
    need(close(folder) == 0, "close");
}
