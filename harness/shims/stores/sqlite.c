/* SQLite, one transaction a write; as shipped with a rollback journal and synchronous=FULL. The
 * table is what a program writes without thought: a key, a value, the key being primary. */
#include "../kv.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum statement { GET, INSERT, UPDATE, REMOVE, REPLACE, SCAN, SCAN_BACK, STATEMENTS };

static const char *const sql[STATEMENTS] = {
    [GET] = "SELECT value FROM records WHERE key = ?1",
    [INSERT] = "INSERT INTO records (key, value) VALUES (?1, ?2)",
    [UPDATE] = "UPDATE records SET value = ?2 WHERE key = ?1",
    [REMOVE] = "DELETE FROM records WHERE key = ?1",
    [REPLACE] = "REPLACE INTO records (key, value) VALUES (?1, ?2)",
    [SCAN] = "SELECT key, value FROM records WHERE key >= ?1 ORDER BY key",
    [SCAN_BACK] = "SELECT key, value FROM records WHERE key <= ?1 ORDER BY key DESC",
};

struct kv {
    sqlite3 *db;
    sqlite3_stmt *statement[STATEMENTS];
    char pragmas[256]; /* run on each connection */
};

extern const struct kv_driver kv_driver;

static const struct kv_setting settings[] = {
    {.name = "durability",
     .value = "none",
     .means = "journal_mode=MEMORY, synchronous=OFF: a kill in a write may spoil the database"},
    {.name = "durability", .value = "process", .means = "journal_mode=WAL, synchronous=OFF"},
    {.name = "durability", .value = "sync", .means = "journal_mode=WAL, synchronous=FULL"},
    {.name = "durability", .value = "*", .lacks = "its writes are atomic at each level with a log"},
    {.name = "memory", .least = 64 << 10, .means = "all of it cache_size"},
    {.name = "page_size", .least = 512, .means = "bytes, a power of two to 65,536"},
    {.name = "locking_mode", .value = "normal", .means = "a lock for each transaction, as shipped"},
    {.name = "locking_mode",
     .value = "exclusive",
     .means = "the first lock is kept until close, so that there is no second session; a rollback "
              "journal is not removed but its header is cleared"},
    {.name = "journal_mode",
     .value = "delete",
     .means = "a rollback journal, as shipped, also where the durability has another; at sync with "
              "synchronous=EXTRA, which syncs its removal"},
    {.name = "journal_mode",
     .value = "wal",
     .means = "a write-ahead log, also where the durability has another"},
    {.name = "compression", .value = "none", .means = "the engine has none"},
    {.name = "compression", .value = "*", .lacks = "the engine has none"},
    {.name = NULL},
};

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

/* A connection of its own for each session: connections wait for each other's locks. */
static int connect_to(const char *file, const char *pragmas, struct kv **kv)
{
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    strcpy(opened->pragmas, pragmas);
    int status = sqlite3_open(file, &opened->db) == SQLITE_OK ? KV_OK : failed(opened);
    if (status == KV_OK && sqlite3_busy_timeout(opened->db, 600000 /* ms */) != SQLITE_OK)
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

/* Adds one, unless its value is NULL: as shipped. */
static void add_pragma(char *text, size_t capacity, const char *name, const char *value)
{
    size_t used = strlen(text);
    if (value != NULL)
        snprintf(text + used, capacity - used, "PRAGMA %s=%s;", name, value);
}

/* The page size comes first: it is fixed by the first write, which a WAL may be. The locking comes
 * before the journal: a WAL under an exclusive lock needs no shared memory. */
static void choose_pragmas(char *text, size_t capacity, const struct kv_option *options,
                           size_t count)
{
    static const struct {
        const char *level, *journal, *synchronous;
    } levels[] = {
        {"none", "memory", "OFF"},
        {"process", "wal", "OFF"},
        {"sync", "wal", "FULL"},
    };
    const char *journal = NULL, *synchronous = NULL;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (kv_is(options, count, "durability", levels[i].level)) {
            journal = levels[i].journal;
            synchronous = levels[i].synchronous;
        }
    if (kv_given(options, count, "journal_mode") != NULL)
        journal = kv_given(options, count, "journal_mode");
    if (kv_is(options, count, "durability", "sync") && strcmp(journal, "delete") == 0)
        synchronous = "EXTRA"; /* FULL does not sync that the journal is gone, and what is left of
                                * it undoes the last commit */
    char cache[32]; /* negative: KiB, not pages */
    snprintf(cache, sizeof cache, "-%llu",
             (unsigned long long)kv_number(options, count, "memory") >> 10);
    text[0] = '\0';
    add_pragma(text, capacity, "page_size", kv_given(options, count, "page_size"));
    add_pragma(text, capacity, "cache_size", kv_given(options, count, "memory") ? cache : NULL);
    add_pragma(text, capacity, "locking_mode", kv_given(options, count, "locking_mode"));
    add_pragma(text, capacity, "journal_mode", journal);
    add_pragma(text, capacity, "synchronous", synchronous);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char file[4096], pragmas[sizeof((struct kv *)0)->pragmas];
    if (kv_check_options(&kv_driver, options, count) != KV_OK)
        return KV_ERROR;
    if (snprintf(file, sizeof file, "%s/records.sqlite", path) >= (int)sizeof file)
        return kv_fail("path too long");
    choose_pragmas(pragmas, sizeof pragmas, options, count);
    return connect_to(file, pragmas, kv);
}

static int begin(struct kv *kv, struct kv **session)
{
    if (strstr(kv->pragmas, "locking_mode=exclusive") != NULL) /* it would wait for the lock */
        return kv_fail("locking_mode=exclusive allows no second session");
    return connect_to(sqlite3_db_filename(kv->db, NULL), kv->pragmas, session);
}

static int bind(sqlite3_stmt *statement, int index, struct kv_slice slice)
{
    return sqlite3_bind_blob64(statement, index, slice.data, slice.size, SQLITE_STATIC);
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    sqlite3_stmt *statement = kv->statement[GET];
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    if (bind(statement, 1, key) != SQLITE_OK)
        return failed(kv);
    int status = KV_OK;
    int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) {
        status = KV_NOT_FOUND;
    } else if (code != SQLITE_ROW) {
        status = failed(kv);
    } else {
        const void *value = sqlite3_column_blob(statement, 0);
        *size = (size_t)sqlite3_column_bytes(statement, 0);
        if (*size > capacity)
            status = KV_TOO_LARGE;
        else if (*size > 0 && value == NULL)
            status = failed(kv);
        else if (*size > 0)
            memcpy(buffer, value, *size);
    }
    sqlite3_reset(statement);
    return status;
}

/* Runs a statement that changes at most one record. */
static int change(struct kv *kv, enum statement which, struct kv_slice key,
                  const struct kv_slice *value)
{
    sqlite3_stmt *statement = kv->statement[which];
    if (kv_check(&kv_driver, key, value == NULL ? 0 : value->size) != KV_OK)
        return KV_TOO_LARGE;
    if (bind(statement, 1, key) != SQLITE_OK ||
        (value != NULL && bind(statement, 2, *value) != SQLITE_OK))
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

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    return change(kv, INSERT, key, &value);
}

static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    return change(kv, UPDATE, key, &value);
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    return change(kv, REMOVE, key, NULL);
}

static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    int status = execute(kv, "BEGIN");
    if (status != KV_OK)
        return status;
    for (size_t i = 0; i < count && status == KV_OK; i++)
        status = change(kv, REPLACE, records[i].key, &records[i].value);
    if (status == KV_OK)
        status = execute(kv, "COMMIT");
    if (status != KV_OK) /* the first error is the one to tell */
        sqlite3_exec(kv->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* Visits what a statement selects until the visitor ends it or there is no more. */
static int walk(struct kv *kv, enum statement which, struct kv_slice from, kv_visit visit,
                void *context)
{
    sqlite3_stmt *statement = kv->statement[which];
    if (bind(statement, 1, from) != SQLITE_OK)
        return failed(kv);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct kv_slice slice[2];
        for (int i = 0; i < 2; i++) {
            const void *data = sqlite3_column_blob(statement, i);
            slice[i].data = data == NULL ? "" : data; /* an empty blob is NULL */
            slice[i].size = (size_t)sqlite3_column_bytes(statement, i);
        }
        if (visit(context, slice[0], slice[1]) != 0)
            break;
    }
    int status = code == SQLITE_DONE || code == SQLITE_ROW ? KV_OK : failed(kv);
    sqlite3_reset(statement);
    return status;
}

static int scan(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, SCAN, from, visit, context);
}

static int scan_back(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, SCAN_BACK, from, visit, context);
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
    static const char *const pragma[] = {"journal_mode", "synchronous", "page_size", "cache_size",
                                         "locking_mode", "mmap_size"};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof pragma / sizeof *pragma; i++) {
        sqlite3_stmt *statement;
        char query[64];
        snprintf(query, sizeof query, "PRAGMA %s", pragma[i]);
        if (sqlite3_prepare_v2(kv->db, query, -1, &statement, NULL) != SQLITE_OK)
            return failed(kv);
        if (sqlite3_step(statement) == SQLITE_ROW && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s=%s\n", pragma[i],
                                     sqlite3_column_text(statement, 0));
        sqlite3_finalize(statement);
    }
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS,
    .name = "sqlite",
    .max_key = 1000000, /* kept in an index entry; far below SQLITE_MAX_LENGTH with a value */
    .max_value = 990000000, /* SQLITE_MAX_LENGTH is 1,000,000,000 for the whole row */
    .settings = settings,
    .default_durability = "process", /* a power loss may undo the last commit: its journal's removal is not synced */
    .version = sqlite3_libversion,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .begin = begin,
    .end = close_store,
    .get = get,
    .insert = insert,
    .update = update,
    .remove = remove_record,
    .write_batch = write_batch,
    .scan = scan,
    .scan_back = scan_back,
    .sync = sync_store,
    .effective_options = effective_options,
};
