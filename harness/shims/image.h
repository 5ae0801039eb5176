/* The image of a disk that a plugin of nbdkit serves: how slow.c and recorder.c open, read and write
 * it. Each function that returns an int returns 0, or an error of errno.h. */
#ifndef IMAGE_H
#define IMAGE_H

#define NBDKIT_API_VERSION 2
#include <errno.h>
#include <fcntl.h>
#include <nbdkit-plugin.h>
#include <sys/stat.h>
#include <unistd.h>

static int image = -1;
static int64_t image_size;

static int open_image(const char *path)
{
    struct stat found;
    image = open(path, O_RDWR | O_CLOEXEC);
    if (image < 0 || fstat(image, &found))
        return errno;
    image_size = found.st_size;
    return 0;
}

static int read_image(char *to, uint32_t size, uint64_t offset)
{
    while (size > 0) {
        ssize_t got = pread(image, to, size, (off_t)offset);
        if (got <= 0)
            return got < 0 ? errno : EIO;
        to += got, size -= (uint32_t)got, offset += (uint64_t)got;
    }
    return 0;
}

static int write_image(const char *from, uint32_t size, uint64_t offset)
{
    while (size > 0) {
        ssize_t done = pwrite(image, from, size, (off_t)offset);
        if (done <= 0)
            return done < 0 ? errno : EIO;
        from += done, size -= (uint32_t)done, offset += (uint64_t)done;
    }
    return 0;
}

/* The result of a request, for nbdkit: 0, or -1 if there is an error. */
static int answer(int error)
{
    if (error)
        nbdkit_set_error(error);
    return error ? -1 : 0;
}

static void *open_disk(int readonly)
{
    (void)readonly;
    return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t get_size(void *handle)
{
    (void)handle;
    return image_size;
}

#endif
