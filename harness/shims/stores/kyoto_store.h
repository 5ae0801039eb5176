/* Kyoto Cabinet through its C API, as shipped: what is written stays in the process's cache or map
 * until the store is closed or synced. The file that includes this has defined store_name,
 * file_name (its suffix chooses the kind of database) and CAPABILITIES.
 *
 * Options, each a tuning parameter of the engine that lasts as long as the file:
 *   small=on         TSMALL: 32-bit addresses instead of 48-bit ones, for smaller files
 *   linear=on        TLINEAR: collisions in a linked list instead of a tree
 *   compression=lzo  TCOMPRESS by LZO; or zlib, lzma; none, as shipped
 *
 * A batch is kcdbsetbulk, which other threads see whole, but which an error leaves half done.
 * LevelDB's benchmark of 2011 gave TreeDB no batch. */
#include "../kv.h"

#include <inttypes.h>
#include <kclangc.h>
#include <stdlib.h>
#include <string.h>

struct kv {
    KCDB *db;
    const char *compression; /* asked for; the engine tells only whether there is one */
};

static const char *const algorithms[] = {"none", "lzo", "zlib", "lzma"};
enum { NONE, ALGORITHMS = sizeof algorithms / sizeof *algorithms };

extern const struct kv_driver kv_driver;

static const char *version(void)
{
    return KCVERSION;
}

static int failed(KCDB *db)
{
    int32_t code = kcdbecode(db);
    if (code == KCENOREC)
        return KV_NOT_FOUND;
    if (code == KCEDUPREC)
        return KV_EXISTS;
    return kv_fail("%s", kcecodename(code));
}

/* Reads "on" or "off" into `flag`. */
static int read_switch(const struct kv_option *option, int *flag)
{
    *flag = strcmp(option->value, "on") == 0;
    if (*flag || strcmp(option->value, "off") == 0)
        return KV_OK;
    return kv_fail("%s: '%s'; allowed: on, off", option->name, option->value);
}

/* Writes the tuning parameters that the options stand for, as kcdbopen wants them in the path. */
static int tuning(const struct kv_option *options, size_t count, char *text, size_t capacity,
                  const char **compression)
{
    int small = 0, linear = 0, status = KV_OK;
    size_t algorithm = NONE;
    for (size_t i = 0; i < count && status == KV_OK; i++) {
        if (strcmp(options[i].name, "small") == 0) {
            status = read_switch(&options[i], &small);
        } else if (strcmp(options[i].name, "linear") == 0) {
            status = read_switch(&options[i], &linear);
        } else if (strcmp(options[i].name, "compression") == 0) {
            for (algorithm = 0; algorithm < ALGORITHMS; algorithm++)
                if (strcmp(options[i].value, algorithms[algorithm]) == 0)
                    break;
            if (algorithm == ALGORITHMS)
                status = kv_fail("compression: '%s'; allowed: none, lzo, zlib, lzma",
                                 options[i].value);
        } else {
            status = kv_fail("unknown option '%s'; allowed: small, linear, compression",
                             options[i].name);
        }
    }
    if (status != KV_OK)
        return status;
    *compression = algorithms[algorithm];
    if (small || linear || algorithm != NONE)
        snprintf(text, capacity, "#opts=%s%s%s", small ? "s" : "", linear ? "l" : "",
                 algorithm == NONE ? "" : "c");
    if (algorithm != NONE) {
        size_t used = strlen(text);
        snprintf(text + used, capacity - used, "#zcomp=%s", *compression);
    }
    return KV_OK;
}

static int close_store(struct kv *kv)
{
    int status = kcdbclose(kv->db) ? KV_OK : failed(kv->db);
    kcdbdel(kv->db);
    free(kv);
    return status;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char parameters[64] = "", file[4096];
    const char *compression;
    int status = tuning(options, count, parameters, sizeof parameters, &compression);
    if (status != KV_OK)
        return status;
    if (strchr(path, '#') != NULL) /* where the engine's parameters begin */
        return kv_fail("%s: the engine opens no path that contains '#'", path);
    if (snprintf(file, sizeof file, "%s/%s%s", path, file_name, parameters) >= (int)sizeof file)
        return kv_fail("path too long");
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->db = kcdbnew();
    opened->compression = compression;
    if (!kcdbopen(opened->db, file, KCOWRITER | KCOCREATE)) {
        status = kv_fail("open: %s", kcdbemsg(opened->db));
        kcdbdel(opened->db);
        free(opened);
        return status;
    }
    *kv = opened;
    return KV_OK;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    int32_t found = kcdbgetbuf(kv->db, key.data, key.size, buffer, capacity);
    if (found < 0)
        return failed(kv->db);
    *size = (size_t)found; /* of the whole value; what fits was copied */
    return *size <= capacity ? KV_OK : KV_TOO_LARGE;
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    return kcdbadd(kv->db, key.data, key.size, value.data, value.size) ? KV_OK : failed(kv->db);
}

static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    return kcdbreplace(kv->db, key.data, key.size, value.data, value.size) ? KV_OK
                                                                           : failed(kv->db);
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    return kcdbremove(kv->db, key.data, key.size) ? KV_OK : failed(kv->db);
}

static KCSTR string_of(struct kv_slice slice)
{
    return (KCSTR){(char *)(uintptr_t)slice.data, slice.size};
}

static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    if (count == 0)
        return KV_OK;
    KCREC *array = calloc(count, sizeof *array);
    if (array == NULL)
        return kv_fail("out of memory");
    for (size_t i = 0; i < count; i++)
        array[i] = (KCREC){string_of(records[i].key), string_of(records[i].value)};
    int64_t stored = kcdbsetbulk(kv->db, array, count, 1);
    free(array);
    return stored == (int64_t)count ? KV_OK : failed(kv->db);
}

static __attribute__((unused)) int scan(struct kv *kv, struct kv_slice from, kv_visit visit,
                                        void *context)
{
    KCCUR *cursor = kcdbcursor(kv->db);
    int valid = from.size == 0 ? kccurjump(cursor) : kccurjumpkey(cursor, from.data, from.size);
    int ended = 0;
    while (valid && !ended) {
        struct kv_slice key, value;
        const char *data;
        char *record = kccurget(cursor, &key.size, &data, &value.size, 1);
        if (record == NULL)
            break;
        key.data = record;
        value.data = data;
        ended = visit(context, key, value) != 0;
        kcfree(record);
    }
    int32_t code = ended ? KCESUCCESS : kccurecode(cursor);
    kccurdel(cursor);
    /* The end is "no record", which an empty database says as well. */
    return code == KCESUCCESS || code == KCENOREC ? KV_OK : kv_fail("%s", kcecodename(code));
}

static int sync_store(struct kv *kv)
{
    return kcdbsync(kv->db, 1 /* physically */, NULL, NULL) ? KV_OK : failed(kv->db);
}

/* What the engine's status, lines of name, tab and value, says of `name`; 0 for nothing. */
static long long status_of(const char *status, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = status; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == '\t')
            return atoll(line + length + 1);
    }
    return 0;
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    char *status = kcdbstatus(kv->db);
    if (status == NULL)
        return failed(kv->db);
    long long options = status_of(status, "opts"); /* 1 TSMALL, 2 TLINEAR, 4 TCOMPRESS */
    char pages[64] = ""; /* which the hash database has none of */
    if (status_of(status, "psiz") > 0)
        snprintf(pages, sizeof pages, "page_cache=%lld\npage_size=%lld\n",
                 status_of(status, "pccap"), status_of(status, "psiz"));
    snprintf(text, capacity,
             "buckets=%lld\nmap_size=%lld\n%ssmall=%s\nlinear=%s\ncompression=%s\nsync=off\n",
             status_of(status, "bnum"), status_of(status, "msiz"), pages,
             options & 1 ? "on" : "off", options & 2 ? "on" : "off",
             options & 4 ? kv->compression : "none");
    kcfree(status);
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = CAPABILITIES,
    .name = store_name,
    .max_key = INT32_MAX / 4, /* sizes are 32-bit integers in the API */
    .max_value = INT32_MAX / 4,
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .insert = insert,
    .update = update,
    .remove = remove_record,
    .write_batch = write_batch,
    .scan = (CAPABILITIES & KV_SCAN) ? scan : NULL,
    .sync = sync_store,
    .effective_options = effective_options,
};
