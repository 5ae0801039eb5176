/* SQLite: each write is one transaction, as shipped with a rollback journal and synchronous=FULL.
 * The table is what a program writes without thought: a key, a value, the key being primary. */
#include "../shim.h"

#include <inttypes.h>
#include <sqlite3.h>

/* The writes stand at their modes, the scans at SCAN plus the direction. */
enum { GET = KV_REMOVE + 1, SCAN, STATEMENTS = SCAN + KV_BACKWARD + 1 };

static const char *const sql[STATEMENTS] = {
    [KV_PUT] = "REPLACE INTO records (key, value) VALUES (?1, ?2)",
    [KV_INSERT] = "INSERT INTO records (key, value) VALUES (?1, ?2)",
    [KV_UPDATE] = "UPDATE records SET value = ?2 WHERE key = ?1",
    [KV_REMOVE] = "DELETE FROM records WHERE key = ?1",
    [GET] = "SELECT value FROM records WHERE key = ?1",
    [SCAN + KV_FORWARD] = "SELECT key, value FROM records WHERE key >= ?1 ORDER BY key",
    [SCAN + KV_BACKWARD] = "SELECT key, value FROM records WHERE key <= ?1 ORDER BY key DESC",
};

#define MOST_MAPPED "1099511627776" /* bytes; the engine lowers it to its own limit */

struct kv {
    sqlite3 *db;
    sqlite3_stmt *statement[STATEMENTS];
    char pragmas[256]; /* run on each connection */
};

static const struct kv_setting settings[] = {
    {"durability", "none",
     .means = "journal_mode=MEMORY, synchronous=OFF: a kill in a write may spoil the database"},
    {"durability", "process", .means = "journal_mode=WAL, synchronous=OFF"},
    {"durability", "recoverable", /* sqlite.org/pragma.html#pragma_synchronous */
     .means = "journal_mode=WAL, synchronous=NORMAL: a checkpoint syncs, a commit does not"},
    {"durability", "sync", .means = "journal_mode=WAL, synchronous=FULL"},
    {"durability", "*", .lacks = "its writes are atomic at each level with a log"},
    {"memory", .least = 64 << 10, .means = "all of it cache_size"},
    {"page_size", .least = 512, .means = "bytes, a power of two to 65,536"},
    {"locking_mode", "normal", .means = "a lock for each transaction, as shipped"},
    {"locking_mode", "exclusive",
     .means = "the first lock is kept until close, so that there is no second session; a rollback "
              "journal is not removed but its header is cleared"},
    {"journal_mode", "delete",
     .means = "a rollback journal, as shipped, also where the durability has another; at "
              "recoverable with synchronous=FULL, as shipped; at sync with EXTRA, which also syncs "
              "its removal"},
    {"journal_mode", "wal", .means = "a write-ahead log, also where the durability has another"},
    {"compression", "none", .means = "the engine has none"},
    {"compression", "*", .lacks = "the engine has none"},
    {"profile", "recommended",
     .means =
         "mmap_size=as much as it is compiled for, so that pages stay in the page cache alone; "
         "cache_size as shipped: SQLite's documentation, Memory-Mapped I/O, "
         "https://www.sqlite.org/mmap.html"},
    {"checks", "on", .means = "PRAGMA integrity_check when the store is opened"},
    {NULL},
};

static const char *version(void)
{
    static char text[64];
    snprintf(text, sizeof text, "%.16s" KV_BUILD, sqlite3_libversion());
    return text;
}

static int failed(struct kv *kv)
{
    return kv_fail("%s", kv->db == NULL ? "out of memory" : sqlite3_errmsg(kv->db));
}

static int execute(struct kv *kv, const char *text)
{
    return sqlite3_exec(kv->db, text, NULL, NULL, NULL) == SQLITE_OK ? KV_OK : failed(kv);
}

static int close_store(struct kv *kv)
{
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(kv->statement[i]);
    int status = sqlite3_close(kv->db) == SQLITE_OK ? KV_OK : failed(kv);
    free(kv);
    return status;
}

/* Each session has a connection of its own; connections wait for each other's locks. */
static int connect_to(const char *file, const char *pragmas, struct kv **kv)
{
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    strcpy(opened->pragmas, pragmas);
    int status = KV_OK;
    if (sqlite3_open(file, &opened->db) != SQLITE_OK ||
        sqlite3_busy_timeout(opened->db, 600000 /* ms */) != SQLITE_OK)
        status = failed(opened);
    if (status == KV_OK)
        status = execute(opened, pragmas);
    if (status == KV_OK)
        status = execute(opened, "CREATE TABLE IF NOT EXISTS records "
                                 "(key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)");
    for (int i = 0; i < STATEMENTS && status == KV_OK; i++)
        if (sqlite3_prepare_v3(opened->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &opened->statement[i], NULL) != SQLITE_OK)
            status = failed(opened);
    if (status == KV_OK)
        *kv = opened;
    else
        close_store(opened);
    return status;
}

/* Refuses a database in which the engine finds a fault. */
static int check(struct kv *kv)
{
    sqlite3_stmt *statement;
    const char *found = "";
    if (sqlite3_prepare_v2(kv->db, "PRAGMA integrity_check(1)", -1, &statement, NULL) != SQLITE_OK)
        return failed(kv);
    int code = sqlite3_step(statement), status = KV_OK;
    if (code == SQLITE_ROW)
        found = (const char *)sqlite3_column_text(statement, 0);
    if (code != SQLITE_ROW || found == NULL)
        status = failed(kv);
    else if (strcmp(found, "ok") != 0)
        status = kv_fail("integrity_check: %s", found);
    sqlite3_finalize(statement);
    return status;
}

/* The page size comes first: the first write fixes it, and switching to a WAL may be one. The
 * locking comes before the journal: a WAL under an exclusive lock needs no shared memory. */
static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096], cache[32], text[sizeof((struct kv *)0)->pragmas] = "";
    if (snprintf(file, sizeof file, "%s/records.sqlite", path) >= (int)sizeof file)
        return kv_fail("path too long");
    const char *level = kv_given(options, count, "durability");
    const char *journal = kv_given(options, count, "journal_mode");
    const char *synchronous = level == NULL ? NULL : "OFF";
    bool rollback = kv_is(options, count, "journal_mode", "delete");
    if (kv_is(options, count, "durability", "recoverable")) /* NORMAL may corrupt without a WAL */
        synchronous = rollback ? "FULL" : "NORMAL";
    if (kv_is(options, count, "durability", "sync")) /* FULL does not sync a journal's removal; if
                                                      * it is back, it undoes the last commit */
        synchronous = rollback ? "EXTRA" : "FULL";
    if (journal == NULL && level != NULL)
        journal = strcmp(level, "none") == 0 ? "memory" : "wal";
    uint64_t memory = kv_number(options, count, "memory");
    snprintf(cache, sizeof cache, "-%" PRIu64, memory >> 10); /* negative: KiB, not pages */
    const struct kv_option pragmas[] = {
        {"page_size", kv_given(options, count, "page_size")},
        {"cache_size", memory > 0 ? cache : NULL},
        {"locking_mode", kv_given(options, count, "locking_mode")},
        {"journal_mode", journal},
        {"synchronous", synchronous},
        {"mmap_size", kv_is(options, count, "profile", "recommended") ? MOST_MAPPED : NULL},
    };
    for (size_t i = 0, used = 0; i < sizeof pragmas / sizeof *pragmas; i++, used = strlen(text))
        if (pragmas[i].value != NULL) /* else as shipped */
            snprintf(text + used, sizeof text - used, "PRAGMA %s=%s;", pragmas[i].name,
                     pragmas[i].value);
    struct kv *opened;
    int status = connect_to(file, text, &opened);
    if (status != KV_OK)
        return status;
    if (kv_is(options, count, "checks", "on") && (status = check(opened)) != KV_OK) {
        close_store(opened);
        return status;
    }
    *kv = opened;
    return KV_OK;
}

static int begin(struct kv *kv, struct kv **session)
{
    if (strstr(kv->pragmas, "locking_mode=exclusive") != NULL) /* it would wait for the lock */
        return kv_fail("locking_mode=exclusive allows no second session");
    return connect_to(sqlite3_db_filename(kv->db, NULL), kv->pragmas, session);
}

static bool bind(sqlite3_stmt *statement, int index, struct kv_slice slice)
{
    return sqlite3_bind_blob64(statement, index, slice.data, slice.size, SQLITE_STATIC) ==
           SQLITE_OK;
}

/* A column of the row at hand; false if the engine had no memory for it. */
static bool column(sqlite3_stmt *statement, int index, struct kv_slice *slice)
{
    const void *data = sqlite3_column_blob(statement, index);
    slice->data = data == NULL ? "" : data; /* an empty blob is NULL */
    slice->size = (size_t)sqlite3_column_bytes(statement, index);
    return data != NULL || slice->size == 0;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    sqlite3_stmt *statement = kv->statement[GET];
    struct kv_slice value;
    if (!bind(statement, 1, key))
        return failed(kv);
    int code = sqlite3_step(statement), status = KV_NOT_FOUND;
    if (code == SQLITE_ROW && column(statement, 0, &value))
        status = kv_copy(value, buffer, capacity, size);
    else if (code != SQLITE_DONE)
        status = failed(kv);
    sqlite3_reset(statement);
    return status;
}

static int write_one(struct kv *kv, enum kv_mode mode, const struct kv_record *record)
{
    sqlite3_stmt *statement = kv->statement[mode];
    if (!bind(statement, 1, record->key) ||
        (mode != KV_REMOVE && !bind(statement, 2, record->value)))
        return failed(kv);
    int status = KV_OK;
    if (sqlite3_step(statement) != SQLITE_DONE)
        status = sqlite3_extended_errcode(kv->db) == SQLITE_CONSTRAINT_PRIMARYKEY ? KV_EXISTS
                                                                                  : failed(kv);
    else if (sqlite3_changes(kv->db) == 0)
        status = KV_NOT_FOUND;
    sqlite3_reset(statement);
    return status;
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    if (mode != KV_PUT)
        return write_one(kv, mode, records);
    int status = execute(kv, "BEGIN");
    if (status != KV_OK)
        return status;
    for (size_t i = 0; i < count && status == KV_OK; i++)
        status = write_one(kv, mode, &records[i]);
    if (status == KV_OK)
        status = execute(kv, "COMMIT");
    if (status != KV_OK) /* the first error is the one to tell */
        sqlite3_exec(kv->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    sqlite3_stmt *statement = kv->statement[SCAN + direction];
    struct kv_slice key, value;
    int code;
    if (!bind(statement, 1, from))
        return failed(kv);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (!column(statement, 0, &key) || !column(statement, 1, &value))
            code = SQLITE_NOMEM;
        if (code != SQLITE_ROW || visit(context, key, value) != 0)
            break;
    }
    int status = code == SQLITE_DONE || code == SQLITE_ROW ? KV_OK : failed(kv);
    sqlite3_reset(statement);
    return status;
}

/* In one step, which reads a single snapshot; with a rollback journal, writers wait for it. */
static int backup(struct kv *kv, const char *path)
{
    char file[4096];
    struct kv copy = {0};
    if (snprintf(file, sizeof file, "%s/records.sqlite", path) >= (int)sizeof file)
        return kv_fail("path too long");
    sqlite3_backup *step = NULL;
    int code = sqlite3_open(file, &copy.db);
    if (code == SQLITE_OK && (step = sqlite3_backup_init(copy.db, "main", kv->db, "main")) != NULL)
        code = sqlite3_backup_step(step, -1);
    sqlite3_backup_finish(step);
    int status = code == SQLITE_DONE ? KV_OK : failed(&copy);
    sqlite3_close(copy.db);
    return status;
}

/* What no commit may have synced: the database and its journal or log. */
static int sync_store(struct kv *kv)
{
    static const int which[] = {SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        sqlite3_file *file = NULL;
        if (sqlite3_file_control(kv->db, "main", which[i], &file) != SQLITE_OK)
            return failed(kv);
        if (file != NULL && file->pMethods != NULL &&
            file->pMethods->xSync(file, SQLITE_SYNC_FULL) != SQLITE_OK)
            return kv_fail("sync failed");
    }
    return KV_OK;
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    static const char *const pragma[] = {"journal_mode", "synchronous",  "page_size",
                                         "cache_size",   "locking_mode", "mmap_size"};
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < sizeof pragma / sizeof *pragma; i++, used = strlen(text)) {
        sqlite3_stmt *statement;
        char query[64];
        snprintf(query, sizeof query, "PRAGMA %s", pragma[i]);
        if (sqlite3_prepare_v2(kv->db, query, -1, &statement, NULL) != SQLITE_OK)
            return failed(kv);
        if (sqlite3_step(statement) == SQLITE_ROW)
            snprintf(text + used, capacity - used, "%s=%s\n", pragma[i],
                     sqlite3_column_text(statement, 0));
        sqlite3_finalize(statement);
    }
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS | KV_PROCESSES,
    .name = KV_NAME,
    .max_key = 1000000,     /* kept in an index entry; far below SQLITE_MAX_LENGTH with a value */
    .max_value = 990000000, /* SQLITE_MAX_LENGTH is 1,000,000,000 for the whole row */
    .settings = settings,
    .default_durability = "process", /* the removal of its journal is not synced: a loss of power
                                      * may undo the last commit */
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .begin = begin,
    .end = close_store,
    .get = get,
    .write = write_records,
    .scan = scan,
    .backup = backup,
    .sync = sync_store,
    .effective_options = effective_options,
};
