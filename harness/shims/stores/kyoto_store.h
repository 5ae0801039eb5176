/* Kyoto Cabinet through its C API. As shipped, what is written stays in the process's cache or map
 * until the store is closed or synced, and the repair at open may fail on what a kill in mid-write
 * has left; for a durability above none each write is a transaction. The file that includes this
 * has defined store_name, file_name (its suffix chooses the kind of database), CAPABILITIES and
 * OWN_SETTINGS: durability, memory and, of the tree, page_size. That one, compression, small and
 * linear last as long as the file.
 *
 * A batch is kcdbsetbulk, which other threads see whole, but which, as shipped, an error leaves
 * half done. LevelDB's benchmark of 2011 gave TreeDB no batch. */
#include "../kv.h"

#include <inttypes.h>
#include <kclangc.h>
#include <stdlib.h>
#include <string.h>

struct kv {
    KCDB *db;
    char compression[8];     /* asked for; the engine tells only whether there is one */
    bool transactions, sync; /* each write is a transaction, and that one is synced */
};

static const struct kv_setting settings[] = {
    OWN_SETTINGS,
    {.name = "compression", .value = "none", .means = "no compression, as shipped"},
    {.name = "compression", .value = "lzo", .means = "TCOMPRESS by LZO"},
    {.name = "compression", .value = "zlib", .means = "TCOMPRESS by zlib"},
    {.name = "compression", .value = "lzma", .means = "TCOMPRESS by LZMA"},
    {.name = "compression", .value = "*", .lacks = "the engine has lzo, zlib and lzma only"},
    {.name = "small",
     .value = "on",
     .means = "TSMALL: 32-bit addresses instead of 48-bit ones, for smaller files"},
    {.name = "small", .value = "off", .means = "48-bit addresses, as shipped"},
    {.name = "linear",
     .value = "on",
     .means = "TLINEAR: collisions in a linked list instead of a tree"},
    {.name = "autosync",
     .value = "on",
     .means = "KCOAUTOSYNC: each write is synced, though without the log that makes it whole"},
    {.name = "autosync", .value = "off", .means = "as shipped"},
    {.name = "linear", .value = "off", .means = "collisions in a tree, as shipped"},
    {.name = NULL},
};

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

/* Writes the tuning parameters that the options stand for, as kcdbopen wants them in the path. */
static void tune(const struct kv_option *options, size_t count, const char *compression,
                 char *text, size_t capacity)
{
    const char *small = kv_is(options, count, "small", "on") ? "s" : "";
    const char *linear = kv_is(options, count, "linear", "on") ? "l" : "";
    const char *compress = strcmp(compression, "none") == 0 ? "" : "c";
    const char *memory = kv_given(options, count, "memory");
    const char *page = kv_given(options, count, "page_size");
    size_t used = 0;
    text[0] = '\0';
    if (*small || *linear || *compress)
        used += (size_t)snprintf(text, capacity, "#opts=%s%s%s", small, linear, compress);
    if (*compress)
        used += (size_t)snprintf(text + used, capacity - used, "#zcomp=%s", compression);
    if (memory != NULL)
        used += (size_t)snprintf(text + used, capacity - used, "#pccap=%s", memory);
    if (page != NULL)
        snprintf(text + used, capacity - used, "#psiz=%s", page);
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
    char parameters[128], file[4096];
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    if (strchr(path, '#') != NULL) /* where the engine's parameters begin */
        return kv_fail("%s: the engine opens no path that contains '#'", path);
    const char *compression = kv_given(options, count, "compression");
    if (compression == NULL)
        compression = "none";
    tune(options, count, compression, parameters, sizeof parameters);
    if (snprintf(file, sizeof file, "%s/%s%s", path, file_name, parameters) >= (int)sizeof file)
        return kv_fail("path too long");
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    snprintf(opened->compression, sizeof opened->compression, "%s", compression);
    opened->sync = kv_is(options, count, "durability", "sync");
    opened->transactions = opened->sync || kv_is(options, count, "durability", "process");
    opened->db = kcdbnew();
    uint32_t mode = KCOWRITER | KCOCREATE | (opened->transactions ? KCOAUTOTRAN : 0);
    if (kv_is(options, count, "autosync", "on"))
        mode |= KCOAUTOSYNC;
    if (!kcdbopen(opened->db, file, mode)) {
        int status = kv_fail("open: %s", kcdbemsg(opened->db));
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

/* Begins a write, if the transaction is `ours` and not the engine's own. With KCOAUTOSYNC the
 * engine's own would be synced too, but so would each record of a batch. */
static int begin(struct kv *kv, bool ours)
{
    return !ours || kcdbbegintran(kv->db, kv->sync) ? KV_OK : failed(kv->db);
}

/* Ends it. */
static int end(struct kv *kv, bool ours, bool done)
{
    int status = done ? KV_OK : failed(kv->db);
    return !ours || kcdbendtran(kv->db, done) ? status : failed(kv->db);
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    if (begin(kv, kv->sync) != KV_OK)
        return KV_ERROR;
    return end(kv, kv->sync, kcdbadd(kv->db, key.data, key.size, value.data, value.size));
}

static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    if (begin(kv, kv->sync) != KV_OK)
        return KV_ERROR;
    return end(kv, kv->sync, kcdbreplace(kv->db, key.data, key.size, value.data, value.size));
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    if (begin(kv, kv->sync) != KV_OK)
        return KV_ERROR;
    return end(kv, kv->sync, kcdbremove(kv->db, key.data, key.size));
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
    int status = begin(kv, kv->transactions); /* one for all */
    if (status == KV_OK)
        status = end(kv, kv->transactions,
                     kcdbsetbulk(kv->db, array, count, 1) == (int64_t)count);
    free(array);
    return status;
}

/* Visits records until the visitor ends it or there are no more. */
static int walk(struct kv *kv, struct kv_slice from, bool back, kv_visit visit, void *context)
{
    int valid, ended = 0;
    if (back && from.size == 0) /* before all keys: the cursor would tell an earlier call's error */
        return KV_OK;
    KCCUR *cursor = kcdbcursor(kv->db);
    if (back)
        valid = kccurjumpbackkey(cursor, from.data, from.size);
    else
        valid = from.size == 0 ? kccurjump(cursor) : kccurjumpkey(cursor, from.data, from.size);
    while (valid && !ended) {
        struct kv_slice key, value;
        const char *data;
        char *record = kccurget(cursor, &key.size, &data, &value.size, !back);
        if (record == NULL)
            break;
        key.data = record;
        value.data = data;
        ended = visit(context, key, value) != 0;
        kcfree(record);
        if (back && !ended)
            valid = kccurstepback(cursor);
    }
    int32_t code = ended ? KCESUCCESS : kccurecode(cursor);
    kccurdel(cursor);
    /* The end is "no record", which an empty database says as well. */
    return code == KCESUCCESS || code == KCENOREC ? KV_OK : kv_fail("%s", kcecodename(code));
}

static __attribute__((unused)) int scan(struct kv *kv, struct kv_slice from, kv_visit visit,
                                        void *context)
{
    return walk(kv, from, false, visit, context);
}

static __attribute__((unused)) int scan_back(struct kv *kv, struct kv_slice from, kv_visit visit,
                                             void *context)
{
    return walk(kv, from, true, visit, context);
}

/* Where writes are transactions, an empty one that is synced: once kcdbsync was called, the opens
 * after kills find a broken file or miss records, though no write was cut off. */
static int sync_store(struct kv *kv)
{
    if (kv->transactions)
        return kcdbbegintran(kv->db, 1) && kcdbendtran(kv->db, 1) ? KV_OK : failed(kv->db);
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
             "buckets=%lld\nmap_size=%lld\n%ssmall=%s\nlinear=%s\ncompression=%s\nsync=%s\n",
             status_of(status, "bnum"), status_of(status, "msiz"), pages,
             options & 1 ? "on" : "off", options & 2 ? "on" : "off",
             options & 4 ? kv->compression : "none", kv->sync ? "each write" : "off");
    kcfree(status);
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = CAPABILITIES,
    .name = store_name,
    .max_key = INT32_MAX / 4, /* sizes are 32-bit integers in the API */
    .max_value = INT32_MAX / 4,
    .settings = settings,
    .default_durability = "none",
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
    .scan_back = (CAPABILITIES & KV_SCAN) ? scan_back : NULL,
    .sync = sync_store,
    .effective_options = effective_options,
};
