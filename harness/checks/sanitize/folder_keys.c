/* Fuzzes the file names of the folder stores: those of a key, of its temporary file, and of two
 * keys beside each other. An input is a byte, the length of the first key, and then both keys. */
#include "../../shims/stores/flat.c"

#include <ctype.h>
#include <strings.h>

enum { NAME_MAX_BYTES = 255 }; /* of a file's name in Linux */

static void expect(bool fine, const char *what, const char *path)
{
    if (fine)
        return;
    fprintf(stderr, "folder keys: %s: '%s'\n", what, path);
    abort();
}

/* No component leaves the folder, and every one is a legal name. */
static void check_components(const char *path, bool nested)
{
    size_t components = 1;
    for (const char *name = path; name != NULL; components++) {
        const char *slash = strchr(name, '/');
        size_t length = slash == NULL ? strlen(name) : (size_t)(slash - name);
        expect(length > 0 && length <= NAME_MAX_BYTES, "a component's length", path);
        expect(strncmp(name, ".", length) != 0, "a component '.'", path);
        expect(length != 2 || strncmp(name, "..", 2) != 0, "a component '..'", path);
        if (slash == NULL)
            break;
        name = slash + 1;
    }
    expect(components == (nested ? 3 : 1), "the number of components", path);
}

static unsigned digit(char c)
{
    return (unsigned)(isdigit((unsigned char)c) ? c - '0' : c - 'a' + 10);
}

/* The key can be read back from the name, which is in small letters: so no two keys share a name,
 * not even where the file system ignores case. */
static void check_name(const char *path, struct kv_slice key)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    const unsigned char *bytes = key.data;
    expect(strlen(name) == 2 * key.size, "the name's length", path);
    expect(name[strspn(name, "0123456789abcdef")] == '\0', "a character", path);
    for (size_t i = 0; i < key.size; i++)
        expect(digit(name[2 * i]) * 16 + digit(name[2 * i + 1]) == bytes[i], "a byte", path);
}

static void check_pair(bool nested, struct kv_slice one, struct kv_slice other)
{
    const struct kv kv = {.folder = -1, .nested = nested};
    char paths[2][FOLDER_PATH], temporary[FOLDER_PATH];
    folder_path(&kv, one, paths[0]);
    folder_path(&kv, other, paths[1]);
    folder_temporary(paths[0], temporary);
    check_components(paths[0], nested);
    check_components(temporary, nested);
    check_name(paths[0], one);
    bool same = kv_same(one, other);
    expect(same == (strcmp(paths[0], paths[1]) == 0), "one path, two keys", paths[0]);
    expect(same == (strcasecmp(paths[0], paths[1]) == 0), "only case differs", paths[0]);
    expect(strcasecmp(temporary, paths[1]) != 0, "a temporary file is a key's", temporary);
}

/* The harness refuses any other by the driver's limits: see store_holds. */
static bool legal(struct kv_slice key)
{
    return key.size > 0 && key.size <= kv_driver.max_key;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t first = data[0] < size ? data[0] : size - 1;
    const struct kv_slice one = {data + 1, first}, other = {data + 1 + first, size - 1 - first};
    for (int nested = 0; nested < 2; nested++) {
        if (legal(one) && legal(other)) {
            check_pair(nested, one, other);
            check_pair(nested, other, one);
        }
    }
    return 0;
}
