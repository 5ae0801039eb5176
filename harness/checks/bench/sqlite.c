#include "bare.h"

#include <sqlite3.h>

static sqlite3 *db;
static sqlite3_stmt *get, *replace, *update;

static void run(const char *sql)
{
    need(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, sql);
}

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *statement;
    need(sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) == SQLITE_OK,
         sql);
    return statement;
}

void bare_open(const char *folder)
{
    char path[4096];
    need(snprintf(path, sizeof path, "%s/records.sqlite", folder) < (int)sizeof path, "path");
    need(sqlite3_open(path, &db) == SQLITE_OK, "open");
    run("PRAGMA journal_mode=WAL");
    run("PRAGMA synchronous=OFF");
    run("CREATE TABLE records (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)");
    get = prepare("SELECT value FROM records WHERE key = ?1");
    replace = prepare("REPLACE INTO records (key, value) VALUES (?1, ?2)");
    update = prepare("UPDATE records SET value = ?2 WHERE key = ?1");
}

static bool change(sqlite3_stmt *statement, const unsigned char *key, const void *value,
                   size_t size)
{
    bool done = sqlite3_bind_blob64(statement, 1, key, RECORDS_KEY_SIZE, SQLITE_STATIC) ==
                    SQLITE_OK &&
                sqlite3_bind_blob64(statement, 2, value, size, SQLITE_STATIC) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_DONE && sqlite3_changes(db) == 1;
    return sqlite3_reset(statement) == SQLITE_OK && done;
}

void bare_fill(const struct bare *bare, const struct bench_plan *plan, size_t batch,
               uint64_t *nanoseconds)
{
    static unsigned char keys[BARE_BATCH][RECORDS_KEY_SIZE];
    for (size_t first = 0, n = 0, count; first < plan->count; first += count, n++) {
        bool well = true;
        count = batch_keys(bare, plan, first, batch, keys);
        uint64_t start = now();
        run("BEGIN");
        for (size_t i = 0; i < count && well; i++)
            well = change(replace, keys[i], bare->pool + plan->offset[first + i],
                          plan->size[first + i]);
        run("COMMIT");
        nanoseconds[n] = now() - start;
        need(well, "write");
    }
}

/* The engine's own update tells whether there was such a key. */
void bare_update(const struct bare *bare, const struct bench_plan *plan, bool look_up,
                 uint64_t *nanoseconds)
{
    (void)look_up;
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char key[RECORDS_KEY_SIZE];
        records_key(plan->number[i], bare->stride, key);
        const void *value = fresh(bare, plan, i);
        uint64_t start = now();
        bool well = change(update, key, value, plan->size[i]);
        nanoseconds[i] = now() - start;
        need(well, "update");
    }
}

void bare_get(const struct bare *bare, const struct bench_plan *plan, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char key[RECORDS_KEY_SIZE];
        size_t size = 0;
        records_key(plan->number[i], bare->stride, key);
        uint64_t start = now();
        bool found = sqlite3_bind_blob64(get, 1, key, sizeof key, SQLITE_STATIC) == SQLITE_OK &&
                     sqlite3_step(get) == SQLITE_ROW;
        if (found) {
            const void *value = sqlite3_column_blob(get, 0);
            size = (size_t)sqlite3_column_bytes(get, 0);
            if (value != NULL && size <= bare->capacity)
                memcpy(bare->buffer, value, size);
        }
        sqlite3_reset(get);
        nanoseconds[i] = now() - start;
        need(found && size == plan->size[i], "get");
    }
}

void bare_close(void)
{
    sqlite3_finalize(get);
    sqlite3_finalize(replace);
    sqlite3_finalize(update);
    need(sqlite3_close(db) == SQLITE_OK, "close");
}
