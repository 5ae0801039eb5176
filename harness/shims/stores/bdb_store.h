/* Berkeley DB in one file. As shipped, and as the sources ran it, it has no environment. For a
 * durability above none it has a private environment, in which each write is a transaction. Without
 * threads=on it takes no locks, and threads must not share it. The file that includes this header
 * defines type, CAPABILITIES and MAX_KEY. The engine's calls return 0 or an error, so
 * `a ?: b` calls b only after a succeeded, and is the first error of the two. */
#include "../shim.h"

#define FILE_NAME "records.db"
#define CHECKPOINT_KIB (32 << 10) /* of log between two checkpoints, which remove older log */
#define UPKEEP "DB_LOG_AUTO_REMOVE, a checkpoint each 32 MiB of log"

struct kv {
    DB_ENV *environment; /* NULL: none */
    DB *db;
    bool threads; /* or processes: the engine locks pages and may ask to repeat a call */
};

static const struct kv_setting settings[] = {
    {"durability", "none", .means = "no environment: no log, no transactions"},
    {"durability", "process",
     .means = "private environment, each write a transaction, DB_TXN_WRITE_NOSYNC, " UPKEEP
              "; the engine still syncs its log before a changed page leaves the cache and before "
              "the last page of the file is freed"},
    {"durability", "recoverable", /* the manual's DB_ENV->set_flags, DB_TXN_WRITE_NOSYNC */
     .means = "private environment, each write a transaction, DB_TXN_WRITE_NOSYNC, " UPKEEP
              ", as at process"},
    {"durability", "sync",
     .means = "private environment, each write a transaction, its log synced, " UPKEEP},
    {"durability", "*", .lacks = "its updates are atomic at every level that survives a crash"},
    {"memory", .least = 1 << 20,
     .means = "cache_size gets it all; the engine adds a quarter to what is below 500 MiB, and an "
              "environment has a log buffer of 32 KiB besides"},
    {"compression", "none", .means = "the engine has none"},
    {"compression", "*", .lacks = "the engine has no compression"},
    {"threads", "on",
     .means = "DB_THREAD and DB_INIT_LOCK, for several readers and writers; needs an environment"},
    {"threads", "off", .means = "no locks, as shipped"},
    {"processes", "on",
     .means = "DB_REGISTER and DB_INIT_LOCK, for several processes; the first one recovers; needs "
              "an environment"},
    {"processes", "off", .means = "the environment is private, as in the sources"},
    {"page_size", .least = 512,
     .means = "bytes, a power of 2 up to 65536; as shipped the block size of the file system"},
    {"checks", "on", .means = "DB_CHKSUM: each page has a checksum"},
    {.name = NULL},
};

static const char *version(void)
{
    static char text[32];
    int major, minor, patch;
    db_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

static int status(int code)
{
    if (code == DB_NOTFOUND)
        return KV_NOT_FOUND;
    if (code == DB_KEYEXIST)
        return KV_EXISTS;
    return code == 0 ? KV_OK : kv_fail("%s", db_strerror(code));
}

/* The database first: the environment can only be closed after it. */
static int close_store(struct kv *kv)
{
    int code = kv->db == NULL ? 0 : kv->db->close(kv->db, 0);
    int closed = kv->environment == NULL ? 0 : kv->environment->close(kv->environment, 0);
    free(kv);
    return status(code ?: closed);
}

/* Recovers what an earlier process left. */
static int open_environment(struct kv *kv, const char *path, uint64_t memory, bool synced,
                            bool shared)
{
    u_int32_t how = DB_CREATE | DB_RECOVER | DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_TXN;
    how |= shared ? DB_REGISTER : DB_PRIVATE;
    u_int32_t flags = DB_AUTO_COMMIT | (synced ? 0 : DB_TXN_WRITE_NOSYNC);
    int code = db_env_create(&kv->environment, 0);
    DB_ENV *environment = kv->environment;
    if (code == 0 && memory != 0)
        code = environment->set_cachesize(environment, memory >> 30, memory & ((1 << 30) - 1), 1);
    code = code ?: environment->set_flags(environment, flags, 1)
                ?: environment->log_set_config(environment, DB_LOG_AUTO_REMOVE, 1);
    if (code == 0 && kv->threads) {
        how |= DB_THREAD | DB_INIT_LOCK;
        code = environment->set_lk_detect(environment, DB_LOCK_DEFAULT);
    }
    return code ?: environment->open(environment, path, how, 0666);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096];
    bool synced = kv_is(options, count, "durability", "sync");
    bool logged = kv_durable(options, count);
    bool shared = kv_is(options, count, "processes", "on");
    bool threads = kv_is(options, count, "threads", "on") || shared;
    uint64_t memory = kv_number(options, count, "memory");
    uint64_t page = kv_number(options, count, "page_size");
    if (snprintf(file, sizeof file, "%s/" FILE_NAME, path) >= (int)sizeof file)
        return kv_fail("path too long");
    if ((page & (page - 1)) != 0 || page > 65536)
        return kv_fail("page_size %llu is not a power of 2 up to 65536", (unsigned long long)page);
    if (threads && !logged)
        return kv_fail("threads=on and processes=on need an environment: durability process, "
                       "recoverable or sync");
    if (logged && memory == 0 && page > 16384)
        memory = 16 * page; /* the engine does so by itself only without an environment */
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->threads = threads;
    int code = logged ? open_environment(opened, path, memory, synced, shared) : 0;
    code = code ?: db_create(&opened->db, opened->environment, 0);
    DB *db = opened->db;
    if (code == 0 && memory != 0 && !logged)
        code = db->set_cachesize(db, memory >> 30, memory & ((1 << 30) - 1), 1);
    if (code == 0 && page != 0)
        code = db->set_pagesize(db, page);
    if (code == 0 && kv_is(options, count, "checks", "on"))
        code = db->set_flags(db, DB_CHKSUM);
    code = code
               ?: db->open(db, NULL, logged ? FILE_NAME : file, NULL, type,
                           DB_CREATE | (threads ? DB_THREAD : 0), 0666);
    if (code != 0) {
        close_store(opened);
        return status(code);
    }
    *kv = opened;
    return KV_OK;
}

static DBT dbt(struct kv_slice slice)
{
    return (DBT){.data = (void *)(uintptr_t)slice.data, .size = (u_int32_t)slice.size};
}

/* With threads, the engine ends a deadlock by refusing a call; get and write repeat theirs. */
static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    DBT k = dbt(key), v = {.data = buffer, .flags = DB_DBT_USERMEM};
    v.ulen = capacity > UINT32_MAX ? UINT32_MAX : (u_int32_t)capacity;
    int code;
    do
        code = kv->db->get(kv->db, NULL, &k, &v, 0);
    while (code == DB_LOCK_DEADLOCK);
    *size = v.size;
    return code == DB_BUFFER_SMALL ? KV_TOO_LARGE : status(code);
}

/* Fills the buffer of one bulk put: bytes from its start and, from its end, four 32-bit words a
 * record and one that closes the list. The caller frees bulk->data. */
static int pack(const struct kv_record *records, size_t count, DBT *bulk)
{
    size_t bytes = (4 * count + 1) * sizeof(u_int32_t);
    for (size_t i = 0; i < count; i++)
        bytes += records[i].key.size + records[i].value.size;
    bytes = (bytes + 1023) / 1024 * 1024; /* the engine wants a multiple of 4 at least */
    if (bytes > UINT32_MAX)
        return kv_fail("a batch of %zu bytes; the engine takes at most 4 GiB", bytes);
    *bulk = (DBT){
        .data = malloc(bytes), .ulen = (u_int32_t)bytes, .flags = DB_DBT_USERMEM | DB_DBT_BULK};
    if (bulk->data == NULL)
        return kv_fail("out of memory");
    void *position;
    DB_MULTIPLE_WRITE_INIT(position, bulk);
    for (size_t i = 0; i < count && position != NULL; i++)
        DB_MULTIPLE_KEY_WRITE_NEXT(position, bulk, records[i].key.data, records[i].key.size,
                                   records[i].value.data, records[i].value.size);
    if (position != NULL)
        return KV_OK;
    free(bulk->data);
    return status(DB_BUFFER_SMALL);
}

/* A write is one call to the engine and, in an environment, one transaction. Only an update looks
 * for its key first; with one writer the two calls need no transaction around them. */
static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    static const u_int32_t flags[] = {DB_MULTIPLE_KEY, DB_NOOVERWRITE, 0}; /* put, insert, update */
    DB *db = kv->db;
    DBT k = {0}, v = {.data = ""};
    if (mode != KV_PUT)
        k = dbt(records->key), v = dbt(records->value);
    else if (pack(records, count, &k) != KV_OK)
        return KV_ERROR;
    int code;
    do {
        code = mode == KV_UPDATE ? db->exists(db, NULL, &k, 0) : 0;
        if (code == 0)
            code = mode == KV_REMOVE ? db->del(db, NULL, &k, 0)
                                     : db->put(db, NULL, &k, &v, flags[mode]);
    } while (code == DB_LOCK_DEADLOCK);
    if (mode == KV_PUT)
        free(k.data);
    if (code == 0 && kv->environment != NULL) /* does nothing until enough was logged */
        code = kv->environment->txn_checkpoint(kv->environment, CHECKPOINT_KIB, 0, 0);
    return status(code);
}

/* Moves to the record where a scan begins. */
static int seek(DBC *cursor, struct kv_slice from, bool back, DBT *k, DBT *v)
{
    int code = cursor->get(cursor, k, v, from.size == 0 ? DB_FIRST : DB_SET_RANGE);
    if (back && code == DB_NOTFOUND) /* all keys are less */
        return cursor->get(cursor, k, v, DB_LAST);
    if (back && code == 0 && !kv_same((struct kv_slice){k->data, k->size}, from))
        return cursor->get(cursor, k, v, DB_PREV);
    return code;
}

static __attribute__((unused)) int scan(struct kv *kv, struct kv_slice from,
                                        enum kv_direction direction, kv_visit visit, void *context)
{
    DBC *cursor;
    DBT k = dbt(from), v = {0};
    bool back = direction == KV_BACKWARD;
    if (back && from.size == 0) /* no key is less */
        return KV_OK;
    if (kv->threads) { /* they share the engine's own memory */
        k.flags = v.flags = DB_DBT_REALLOC;
        k.data = malloc(from.size + 1);
        if (k.data == NULL)
            return kv_fail("out of memory");
        memcpy(k.data, from.data, from.size);
    }
    int code = kv->db->cursor(kv->db, NULL, &cursor, 0);
    if (code == 0) {
        code = seek(cursor, from, back, &k, &v);
        while (code == 0 && visit(context, (struct kv_slice){k.data, k.size},
                                  (struct kv_slice){v.data == NULL ? "" : v.data, v.size}) == 0)
            code = cursor->get(cursor, &k, &v, back ? DB_PREV : DB_NEXT);
        int closed = cursor->close(cursor);
        code = code == 0 || code == DB_NOTFOUND ? closed : code;
    }
    if (kv->threads) {
        free(k.data);
        free(v.data);
    }
    return status(code);
}

static int sync_store(struct kv *kv)
{
    return status(kv->environment == NULL ? kv->db->sync(kv->db, 0)
                                          : kv->environment->log_flush(kv->environment, NULL));
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    DB_ENV *environment = kv->environment;
    u_int32_t gigabytes, bytes, page, flags = DB_TXN_WRITE_NOSYNC;
    int parts, code = kv->db->get_pagesize(kv->db, &page);
    if (environment == NULL)
        code = code ?: kv->db->get_cachesize(kv->db, &gigabytes, &bytes, &parts);
    else
        code = code ?: environment->get_cachesize(environment, &gigabytes, &bytes, &parts)
                    ?: environment->get_flags(environment, &flags);
    if (code != 0)
        return status(code);
    snprintf(text, capacity, "cache_size=%llu\npage_size=%u\nenvironment=%s\nsync=%s\n",
             ((unsigned long long)gigabytes << 30) + bytes, page,
             environment == NULL ? "none" : "transactional",
             flags & DB_TXN_WRITE_NOSYNC ? "off" : "each write");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = CAPABILITIES,
    .name = KV_NAME,
    .max_key = MAX_KEY,
    .max_value = UINT32_MAX / 4, /* lengths are 32 bits, also that of a batch of both */
    .settings = settings,
    .default_durability = "none",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .scan = (CAPABILITIES & KV_SCAN) ? scan : NULL,
    .sync = sync_store,
    .effective_options = effective_options,
};
