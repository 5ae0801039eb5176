#include "bare.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 2 * KEY + 1 };

static int folder;

static void open_store(const char *path)
{
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    need(folder >= 0, "open");
}

static void name_of(const unsigned char *key, char name[NAME])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < KEY; i++) {
        name[2 * i] = digits[key[i] >> 4];
        name[2 * i + 1] = digits[key[i] & 15];
    }
    name[2 * KEY] = '\0';
}

static int open_file(const unsigned char *key, int flags)
{
    char name[NAME];
    name_of(key, name);
    return openat(folder, name, O_CLOEXEC | flags, 0666);
}

static bool write_file(const struct record *record, int flags)
{
    int file = open_file(record->key, O_WRONLY | flags);
    return file >= 0 && write(file, record->value, record->size) == (ssize_t)record->size &&
           close(file) == 0;
}

static bool write_batch(struct record *records, size_t count)
{
    bool well = true;
    for (size_t i = 0; i < count && well; i++)
        well = write_file(&records[i], O_CREAT | O_TRUNC);
    return well;
}

/* An open says whether there was a file. */
static bool write_one(struct record *record, enum plan_operation operation)
{
    char name[NAME];
    if (operation != PLAN_REMOVE)
        return write_file(record, operation == PLAN_INSERT ? O_CREAT | O_EXCL : O_TRUNC);
    name_of(record->key, name);
    return unlinkat(folder, name, 0) == 0;
}

static size_t get(unsigned char *key, void *buffer, size_t capacity)
{
    struct stat status = {0};
    int file = open_file(key, O_RDONLY);
    bool well = file >= 0 && fstat(file, &status) == 0 && (size_t)status.st_size <= capacity &&
                read(file, buffer, (size_t)status.st_size) == status.st_size && close(file) == 0;
    return well ? (size_t)status.st_size : SIZE_MAX;
}

static void close_store(void)
{
    need(close(folder) == 0, "close");
}
