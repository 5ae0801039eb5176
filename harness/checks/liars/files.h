/* The files of the liar. No bug is planted here. */
#ifndef FILES_H
#define FILES_H

#include "../../shims/shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct bytes {
    char *data;
    size_t size;
};

static int failed(const char *what)
{
    return kv_fail("%s: %s", what, strerror(errno));
}

static void name_of(char name[32], const char *kind, unsigned generation)
{
    snprintf(name, 32, "%s.%u", kind, generation);
}

static int write_at(int file, const void *data, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t written =
            pwrite(file, (const char *)data + done, size - done, (off_t)(offset + done));
        if (written < 0 && errno != EINTR)
            return failed("write");
        done += written < 0 ? 0 : (size_t)written;
    }
    return KV_OK;
}

/* A new file, and its descriptor. */
static int make_file(int folder, const char *name, struct bytes bytes, bool sync, int *file)
{
    *file = openat(folder, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int status = *file < 0 ? failed(name) : write_at(*file, bytes.data, bytes.size, 0);
    return status == KV_OK && sync && fdatasync(*file) != 0 ? failed(name) : status;
}

/* A file of a generation, its descriptor, and its bytes, to be freed. */
static int read_file(int folder, const char *kind, unsigned generation, struct bytes *bytes,
                     int *file)
{
    char name[32];
    struct stat found;
    name_of(name, kind, generation);
    *file = openat(folder, name, O_RDWR | O_CLOEXEC);
    if (*file < 0 || fstat(*file, &found) != 0)
        return failed(name);
    *bytes = (struct bytes){malloc((size_t)found.st_size + 1), (size_t)found.st_size};
    if (bytes->data == NULL)
        return kv_fail("out of memory");
    return pread(*file, bytes->data, bytes->size, 0) == found.st_size ? KV_OK : failed(name);
}

/* Deletes files; one that stays takes space and does no harm. */
static void delete_generation(int folder, unsigned generation)
{
    static const char *const kinds[] = {"index", "values", "log"};
    for (int i = 0; i < 3; i++) {
        char name[32];
        name_of(name, kinds[i], generation);
        unlinkat(folder, name, 0);
    }
}

/* Finds the newest generation; 0 if there is none. */
static int newest(int folder, unsigned *generation)
{
    int copy = dup(folder);
    DIR *opened = copy < 0 ? NULL : fdopendir(copy);
    if (opened == NULL)
        return failed("read folder");
    for (struct dirent *entry; (entry = readdir(opened)) != NULL;) {
        unsigned number;
        if (sscanf(entry->d_name, "index.%u", &number) == 1 && number > *generation)
            *generation = number;
    }
    closedir(opened);
    return KV_OK;
}

#endif
