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

static int open_file(const unsigned char *key, int flags)
{
    static const char digits[] = "0123456789abcdef";
    char name[NAME];
    for (size_t i = 0; i < KEY; i++) {
        name[2 * i] = digits[key[i] >> 4];
        name[2 * i + 1] = digits[key[i] & 15];
    }
    name[2 * KEY] = '\0';
    return openat(folder, name, O_CLOEXEC | flags, 0666);
}

static bool write_file(const struct record *record, int flags)
{
    int file = open_file(record->key, O_WRONLY | O_TRUNC | flags);
    return file >= 0 && write(file, record->value, record->size) == (ssize_t)record->size &&
           close(file) == 0;
}

static bool write_batch(struct record *records, size_t count)
{
    bool well = true;
    for (size_t i = 0; i < count && well; i++)
        well = write_file(&records[i], O_CREAT);
    return well;
}

/* An open that does not create a file finds out whether there was one. */
static bool update(struct record *record, bool look_up)
{
    (void)look_up;
    return write_file(record, 0);
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
