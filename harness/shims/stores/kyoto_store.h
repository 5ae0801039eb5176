/* Kyoto Cabinet through its C API. As shipped, writes stay in the process's cache or map until the
 * store is closed or synced, and after a kill in mid-write the repair at open may fail. For a
 * durability above none each write is a transaction. The file that includes this header defines
 * file_name (its suffix chooses the kind of database), CAPABILITIES and OWN_SETTINGS:
 * durability, memory and, for the tree, page_size. The settings page_size, compression, small and
 * linear hold for the life of the file.
 *
 * A batch is kcdbsetbulk. Other threads see it whole, but as shipped an error leaves it half done.
 * LevelDB's benchmark of 2011 used no batches with TreeDB. */
#include "../shim.h"

#include <kclangc.h>

struct kv {
    KCDB *db;
    char compression[8];     /* as requested; the engine reports only whether there is one */
    bool transactions, sync; /* each write is a transaction, and that one is synced */
};

static const struct kv_setting settings[] = {
    OWN_SETTINGS,
    {"compression", "none", .means = "no compression, as shipped"},
    {"compression", "lzo", .means = "TCOMPRESS by LZO"},
    {"compression", "zlib", .means = "TCOMPRESS by zlib"},
    {"compression", "lzma", .means = "TCOMPRESS by LZMA"},
    {"compression", "*", .lacks = "the engine has lzo, zlib and lzma only"},
    {"small", "on", .means = "TSMALL: 32-bit addresses instead of 48-bit ones, for smaller files"},
    {"small", "off", .means = "48-bit addresses, as shipped"},
    {"linear", "on", .means = "TLINEAR: collisions in a linked list instead of a tree"},
    {"linear", "off", .means = "collisions in a tree, as shipped"},
    {"autosync", "on",
     .means = "KCOAUTOSYNC: each write is synced, though without the log that makes it whole"},
    {"autosync", "off", .means = "as shipped"},
    {.name = NULL},
};

static const char *version(void)
{
    return KCVERSION;
}

/* Of a call that succeeded or not. */
static int status(KCDB *db, bool done)
{
    int32_t code = done ? KCESUCCESS : kcdbecode(db);
    if (code == KCENOREC)
        return KV_NOT_FOUND;
    if (code == KCEDUPREC)
        return KV_EXISTS;
    return done ? KV_OK : kv_fail("%s", kcecodename(code));
}

static int close_store(struct kv *kv)
{
    int closed = status(kv->db, kcdbclose(kv->db));
    kcdbdel(kv->db);
    free(kv);
    return closed;
}

/* The path that kcdbopen gets ends in the tuning parameters; one that is empty or 0 has no effect.
 */
static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096];
    const char *given = kv_given(options, count, "compression");
    const char *compression = given == NULL ? "none" : given;
    if (strchr(path, '#') != NULL) /* where the engine's parameters begin */
        return kv_fail("%s: the engine opens no path that contains '#'", path);
    int length = snprintf(file, sizeof file, "%s/%s#opts=%s%s%s#zcomp=%s#pccap=%llu#psiz=%llu",
                          path, file_name, kv_is(options, count, "small", "on") ? "s" : "",
                          kv_is(options, count, "linear", "on") ? "l" : "",
                          strcmp(compression, "none") == 0 ? "" : "c", compression,
                          (unsigned long long)kv_number(options, count, "memory"),
                          (unsigned long long)kv_number(options, count, "page_size"));
    if (length >= (int)sizeof file)
        return kv_fail("path too long");
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    snprintf(opened->compression, sizeof opened->compression, "%s", compression);
    opened->sync = kv_is(options, count, "durability", "sync");
    opened->transactions = kv_durable(options, count);
    opened->db = kcdbnew();
    uint32_t mode = KCOWRITER | KCOCREATE | (opened->transactions ? KCOAUTOTRAN : 0);
    if (kv_is(options, count, "autosync", "on"))
        mode |= KCOAUTOSYNC;
    if (!kcdbopen(opened->db, file, mode)) {
        int failed = kv_fail("open: %s", kcdbemsg(opened->db));
        kcdbdel(opened->db);
        free(opened);
        return failed;
    }
    *kv = opened;
    return KV_OK;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    int32_t found = kcdbgetbuf(kv->db, key.data, key.size, buffer, capacity);
    if (found < 0)
        return status(kv->db, false);
    *size = (size_t)found; /* of the whole value; what fits was copied */
    return *size <= capacity ? KV_OK : KV_TOO_LARGE;
}

static KCSTR string(struct kv_slice slice)
{
    return (KCSTR){(char *)(uintptr_t)slice.data, slice.size};
}

static bool write_one(KCDB *db, enum kv_mode mode, struct kv_slice key, struct kv_slice value)
{
    if (mode == KV_REMOVE)
        return kcdbremove(db, key.data, key.size);
    if (mode == KV_INSERT)
        return kcdbadd(db, key.data, key.size, value.data, value.size);
    return kcdbreplace(db, key.data, key.size, value.data, value.size);
}

/* The shim begins the transaction where it is synced or holds a batch; else the engine does. Were
 * it to sync its own, by KCOAUTOSYNC, it would do so for each record of a batch. */
static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    KCDB *db = kv->db;
    KCREC *batch = NULL;
    bool done, ours = mode == KV_PUT ? kv->transactions : kv->sync;
    if (count == 0)
        return KV_OK;
    if (mode == KV_PUT) {
        batch = calloc(count, sizeof *batch);
        if (batch == NULL)
            return kv_fail("out of memory");
        for (size_t i = 0; i < count; i++)
            batch[i] = (KCREC){string(records[i].key), string(records[i].value)};
    }
    if (ours && !kcdbbegintran(db, kv->sync)) {
        free(batch);
        return status(db, false);
    }
    if (mode == KV_PUT)
        done = kcdbsetbulk(db, batch, count, 1) == (int64_t)count;
    else
        done = write_one(db, mode, records->key, records->value);
    int written = status(db, done);
    if (ours && !kcdbendtran(db, done))
        written = status(db, false);
    free(batch);
    return written;
}

static __attribute__((unused)) int scan(struct kv *kv, struct kv_slice from,
                                        enum kv_direction direction, kv_visit visit, void *context)
{
    bool back = direction == KV_BACKWARD, ended = false, valid;
    if (back && from.size == 0) /* no key is less; the cursor would report an earlier error */
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

/* Other calls wait until the file is copied. */
static int backup(struct kv *kv, const char *path)
{
    char file[4096];
    if (snprintf(file, sizeof file, "%s/%s", path, file_name) >= (int)sizeof file)
        return kv_fail("path too long");
    return status(kv->db, kcdbcopy(kv->db, file));
}

/* Where writes are transactions, an empty synced one: after a call of kcdbsync, opens that follow
 * kills find a broken file or miss records, though no write was cut off. */
static int sync_store(struct kv *kv)
{
    if (kv->transactions)
        return status(kv->db, kcdbbegintran(kv->db, 1) && kcdbendtran(kv->db, 1));
    return status(kv->db, kcdbsync(kv->db, 1 /* physically */, NULL, NULL));
}

/* The number that the engine's status, lines of name, tab and value, has for `name`, or 0. */
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
    char *lines = kcdbstatus(kv->db);
    if (lines == NULL)
        return status(kv->db, false);
    long long options = status_of(lines, "opts"); /* 1 TSMALL, 2 TLINEAR, 4 TCOMPRESS */
    char pages[64] = "";                          /* the hash database has none */
    if (status_of(lines, "psiz") > 0)
        snprintf(pages, sizeof pages, "page_cache=%lld\npage_size=%lld\n",
                 status_of(lines, "pccap"), status_of(lines, "psiz"));
    snprintf(text, capacity,
             "buckets=%lld\nmap_size=%lld\n%ssmall=%s\nlinear=%s\ncompression=%s\nsync=%s\n"
             "transactions=%s\n",
             status_of(lines, "bnum"), status_of(lines, "msiz"), pages, options & 1 ? "on" : "off",
             options & 2 ? "on" : "off", options & 4 ? kv->compression : "none",
             kv->sync ? "each write" : "off", kv->transactions ? "on" : "off");
    kcfree(lines);
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = CAPABILITIES,
    .name = KV_NAME,
    .max_key = INT32_MAX / 4, /* sizes are 32-bit integers in the API */
    .max_value = INT32_MAX / 4,
    .settings = settings,
    .default_durability = "none",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .scan = (CAPABILITIES & KV_SCAN) ? scan : NULL,
    .backup = backup,
    .sync = sync_store,
    .effective_options = effective_options,
};
