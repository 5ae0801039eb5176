/* WiredTiger: a table of raw bytes. As shipped it has no log, so that what is written reaches the
 * disk with a checkpoint, at close or sync; for a durability above none it has one. The file that
 * includes this has defined store_name, table_type, LEAST_CACHE, MAX_KEY and MAX_VALUE: the
 * engine's own limit is a little below 4 GiB, but beyond these a write was not seen to work with
 * the cache that ships. A session and its cursors serve one thread. */
#include "wiredtiger_settings.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <wiredtiger.h>

#define ROLLBACKS 1000 /* that one write may meet */

struct kv {
    char table[96]; /* its configuration */
    bool logged, synced, sized;
    WT_CONNECTION *connection;
    WT_SESSION *session;
    WT_CURSOR *strict; /* insert finds no record there, update and remove find one */
    WT_CURSOR *loose;  /* writes whether there is one or not */
};

extern const struct kv_driver kv_driver;

static const char *version(void)
{
    static char text[32];
    int major, minor, patch;
    wiredtiger_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

/* What the engine last complained of before it panicked, from whichever of its threads: calls fail
 * with the panic alone, which is the same for a full disk as for a damaged file. */
static atomic_int complaint;

static int hear(WT_EVENT_HANDLER *handler, WT_SESSION *session, int error, const char *message)
{
    (void)handler, (void)session;
    if (error != 0 && error != WT_PANIC)
        atomic_store(&complaint, error);
    return fprintf(stderr, "%s\n", message) < 0 ? EIO : 0; /* as the engine does by itself */
}

static WT_EVENT_HANDLER listener = {.handle_error = hear};

static int failed(int code)
{
    if (code == WT_NOTFOUND)
        return KV_NOT_FOUND;
    if (code == WT_DUPLICATE_KEY)
        return KV_EXISTS;
    int cause = atomic_load(&complaint);
    if (code == WT_PANIC && cause != 0)
        return kv_fail("%s: %s", wiredtiger_strerror(code), wiredtiger_strerror(cause));
    return kv_fail("%s", wiredtiger_strerror(code));
}

static int end(struct kv *session)
{
    int code = session->session->close(session->session, NULL);
    free(session);
    return code == 0 ? KV_OK : failed(code);
}

static int begin(struct kv *kv, struct kv **session)
{
    struct kv *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    *opened = *kv;
    int code = kv->connection->open_session(kv->connection, NULL, NULL, &opened->session);
    if (code != 0) {
        free(opened);
        return failed(code);
    }
    WT_SESSION *own = opened->session;
    code = own->create(own, TABLE, kv->table);
    if (code == 0)
        code = own->open_cursor(own, TABLE, NULL, "overwrite=false", &opened->strict);
    if (code == 0)
        code = own->open_cursor(own, TABLE, NULL, NULL, &opened->loose);
    if (code != 0) {
        end(opened);
        return failed(code);
    }
    *session = opened;
    return KV_OK;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char configuration[5000];
    struct kv shared = {
        .sized = kv_given(options, count, "memory") != NULL,
        .synced = kv_is(options, count, "durability", "sync"),
        .logged = kv_is(options, count, "durability", "sync") ||
                  kv_is(options, count, "durability", "process"),
    };
    if (kv_check_options(&kv_driver, options, count) != KV_OK ||
        configure(options, count, configuration, sizeof configuration) != KV_OK)
        return KV_ERROR;
    configure_table(options, count, shared.table, sizeof shared.table);
    int code = wiredtiger_open(path, &listener, configuration, &shared.connection);
    if (code != 0)
        return failed(code);
    int status = begin(&shared, kv);
    if (status != KV_OK)
        shared.connection->close(shared.connection, NULL);
    return status;
}

/* Closes the sessions that are open as well. */
static int close_store(struct kv *kv)
{
    int code = kv->connection->close(kv->connection, NULL);
    free(kv);
    return code == 0 ? KV_OK : failed(code);
}

static WT_ITEM item(struct kv_slice slice)
{
    return (WT_ITEM){.data = slice.data, .size = slice.size};
}

/* Lets go of the pages that the cursor stands on; the first error is the one to tell. */
static int finish(WT_CURSOR *cursor, int code)
{
    int reset = cursor->reset(cursor);
    if (code == 0)
        code = reset;
    return code == 0 ? KV_OK : failed(code);
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    WT_CURSOR *cursor = kv->loose;
    WT_ITEM k = item(key), v;
    if (kv_check(&kv_driver, key, 0) != KV_OK)
        return KV_TOO_LARGE;
    cursor->set_key(cursor, &k);
    int code = cursor->search(cursor);
    if (code == 0)
        code = cursor->get_value(cursor, &v);
    if (code == 0) {
        *size = v.size;
        if (v.size <= capacity)
            memcpy(buffer, v.data, v.size);
    }
    int status = finish(cursor, code);
    return status == KV_OK && *size > capacity ? KV_TOO_LARGE : status;
}

/* Runs one of the cursor's writes, again for as long as the engine asks to, which it may do when
 * its cache is short. */
static int change(WT_CURSOR *cursor, int (*write)(WT_CURSOR *), struct kv_slice key,
                  struct kv_slice value)
{
    WT_ITEM k = item(key), v = item(value);
    if (kv_check(&kv_driver, key, value.size) != KV_OK)
        return KV_TOO_LARGE;
    int code = WT_ROLLBACK;
    for (int tries = 0; tries < ROLLBACKS && code == WT_ROLLBACK; tries++) {
        cursor->set_key(cursor, &k);
        cursor->set_value(cursor, &v);
        code = write(cursor);
    }
    return finish(cursor, code);
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    return change(kv->strict, kv->strict->insert, key, value);
}

static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    return change(kv->strict, kv->strict->update, key, value);
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    return change(kv->strict, kv->strict->remove, key, (struct kv_slice){"", 0});
}

/* One transaction. */
static int write_batch(struct kv *kv, const struct kv_record *records, size_t count)
{
    WT_SESSION *session = kv->session;
    WT_CURSOR *cursor = kv->loose;
    if (kv_check_batch(&kv_driver, records, count) != KV_OK)
        return KV_TOO_LARGE;
    int code = WT_ROLLBACK;
    for (int tries = 0; tries < ROLLBACKS && code == WT_ROLLBACK; tries++) {
        code = session->begin_transaction(session, NULL);
        if (code != 0)
            return failed(code);
        for (size_t i = 0; i < count && code == 0; i++) {
            WT_ITEM k = item(records[i].key), v = item(records[i].value);
            cursor->set_key(cursor, &k);
            cursor->set_value(cursor, &v);
            code = cursor->insert(cursor);
        }
        if (code == 0)
            code = session->commit_transaction(session, NULL); /* rolls back when it fails */
        else
            session->rollback_transaction(session, NULL);
    }
    return finish(cursor, code);
}

/* Moves to the record where a walk from `from` begins. */
static int seek(WT_CURSOR *cursor, struct kv_slice from, bool back)
{
    WT_ITEM k = item(from);
    int side;
    if (from.size == 0)
        return back ? WT_NOTFOUND : cursor->next(cursor);
    cursor->set_key(cursor, &k);
    int code = cursor->search_near(cursor, &side);
    if (code == 0 && side < 0 && !back) /* it stands before the place */
        return cursor->next(cursor);
    if (code == 0 && side > 0 && back) /* or after it */
        return cursor->prev(cursor);
    return code;
}

/* Visits records until the visitor ends it or there are no more. */
static int walk(struct kv *kv, struct kv_slice from, bool back, kv_visit visit, void *context)
{
    WT_CURSOR *cursor = kv->loose;
    WT_ITEM k, v;
    int code = seek(cursor, from, back);
    while (code == 0) {
        code = cursor->get_key(cursor, &k);
        if (code == 0)
            code = cursor->get_value(cursor, &v);
        if (code != 0 || visit(context, (struct kv_slice){k.data, k.size},
                               (struct kv_slice){v.data, v.size}) != 0)
            break;
        code = back ? cursor->prev(cursor) : cursor->next(cursor);
    }
    return finish(cursor, code == WT_NOTFOUND ? 0 : code);
}

static int scan(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, from, false, visit, context);
}

static int scan_back(struct kv *kv, struct kv_slice from, kv_visit visit, void *context)
{
    return walk(kv, from, true, visit, context);
}

/* The LSM tree merges while there is progress, and looks once a second. The B-tree is one sorted
 * piece: what it does is to move blocks to the front of its file. */
static int compact(struct kv *kv)
{
    int code = kv->session->compact(kv->session, TABLE, "timeout=0"); /* however long it takes */
    return code == 0 ? KV_OK : failed(code);
}

static int sync_store(struct kv *kv)
{
    WT_SESSION *session = kv->session;
    int code = kv->logged ? session->log_flush(session, "sync=on")
                          : session->checkpoint(session, NULL);
    return code == 0 ? KV_OK : failed(code);
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    char cache[64] = "100MB (shipped; not read back)";
    int64_t size;
    int code = 0;
    if (kv->sized) {
        code = get_cache_size(kv->connection, kv->session, &size);
        snprintf(cache, sizeof cache, "%lld", (long long)size);
    }
    snprintf(text, capacity, "cache_size=%s\nlog=%s\nsync=%s\n", cache,
             kv->logged ? "on" : "off", kv->synced ? "each write" : "off");
    if (code == 0)
        code = add_table_settings(kv->session, text, capacity);
    return code == 0 ? KV_OK : failed(code);
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS,
    .name = store_name,
    .max_key = MAX_KEY,
    .max_value = MAX_VALUE,
    .settings = settings,
    .default_durability = "none",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .begin = begin,
    .end = end,
    .get = get,
    .insert = insert,
    .update = update,
    .remove = remove_record,
    .write_batch = write_batch,
    .scan = scan,
    .scan_back = scan_back,
    .compact = compact,
    .sync = sync_store,
    .effective_options = effective_options,
};
