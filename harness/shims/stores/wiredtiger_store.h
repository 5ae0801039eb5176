/* WiredTiger: a table of raw bytes. As shipped it has no log, so writes reach the disk with a
 * checkpoint, at close or sync; for a durability above none it has one. The file that includes this
 * header defines table_type, LEAST_CACHE, MAX_KEY and MAX_VALUE. The engine's own limit
 * is a little below 4 GiB, but with the shipped cache we saw no write beyond MAX_KEY and MAX_VALUE
 * work. A session and its cursors serve one thread. */
#include "wiredtiger_settings.h"

#include <errno.h>
#include <stdatomic.h>

#define ROLLBACKS 1000 /* that one write may meet */

struct kv {
    char table[96]; /* its configuration */
    bool logged, synced, sized;
    WT_CONNECTION *connection;
    WT_SESSION *session;
    WT_CURSOR *strict; /* insert fails if the record exists, update and remove if it does not */
    WT_CURSOR *loose;  /* writes in either case */
};

static const char *version(void)
{
    static char text[32];
    int major, minor, patch;
    wiredtiger_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

/* The last error that any thread of the engine reported before it panicked. Calls then fail with
 * the panic alone, which is the same for a full disk as for a damaged file. */
static atomic_int complaint;

static int hear(WT_EVENT_HANDLER *handler, WT_SESSION *session, int error, const char *message)
{
    (void)handler, (void)session;
    if (error != 0 && error != WT_PANIC)
        atomic_store(&complaint, error);
    return fprintf(stderr, "%s\n", message) < 0 ? EIO : 0; /* as the engine does by itself */
}

static WT_EVENT_HANDLER listener = {.handle_error = hear};

static int status(int code)
{
    int cause = code == WT_PANIC ? atomic_load(&complaint) : 0;
    if (code == WT_NOTFOUND)
        return KV_NOT_FOUND;
    if (code == WT_DUPLICATE_KEY)
        return KV_EXISTS;
    if (cause != 0)
        return kv_fail("%s: %s", wiredtiger_strerror(code), wiredtiger_strerror(cause));
    return code == 0 ? KV_OK : kv_fail("%s", wiredtiger_strerror(code));
}

static int end(struct kv *session)
{
    int code = session->session == NULL ? 0 : session->session->close(session->session, NULL);
    free(session);
    return status(code);
}

static int begin(struct kv *kv, struct kv **session)
{
    struct kv *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    *opened = *kv;
    opened->session = NULL;
    int code = kv->connection->open_session(kv->connection, NULL, NULL, &opened->session);
    WT_SESSION *own = opened->session;
    code = code ?: own->create(own, TABLE, kv->table)
                ?: own->open_cursor(own, TABLE, NULL, "overwrite=false", &opened->strict)
                ?: own->open_cursor(own, TABLE, NULL, NULL, &opened->loose);
    if (code == 0)
        *session = opened;
    else
        end(opened);
    return status(code);
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    char configuration[5000];
    struct kv shared = {.sized = kv_given(options, count, "memory") != NULL};
    shared.synced = kv_is(options, count, "durability", "sync");
    shared.logged = kv_durable(options, count);
    const char *checks = kv_given(options, count, "checks");
    snprintf(shared.table, sizeof shared.table, "%s,block_compressor=%s%s%s", table_type,
             kv_given(options, count, "compression") ?: "none",
             checks == NULL ? "" : ",checksum=", checks ?: "");
    if (configure(options, count, configuration, sizeof configuration) != KV_OK)
        return KV_ERROR;
    int code = wiredtiger_open(path, &listener, configuration, &shared.connection);
    int begun = code == 0 ? begin(&shared, kv) : status(code);
    if (code == 0 && begun != KV_OK)
        shared.connection->close(shared.connection, NULL);
    return begun;
}

/* Closes the sessions that are open as well. */
static int close_store(struct kv *kv)
{
    int code = kv->connection->close(kv->connection, NULL);
    free(kv);
    return status(code);
}

static WT_ITEM item(struct kv_slice slice)
{
    return (WT_ITEM){.data = slice.data, .size = slice.size};
}

/* Lets go of the pages that the cursor stands on. */
static int finish(WT_CURSOR *cursor, int code)
{
    int reset = cursor->reset(cursor);
    return status(code ?: reset);
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    WT_CURSOR *cursor = kv->loose;
    WT_ITEM k = item(key), v;
    cursor->set_key(cursor, &k);
    int code = cursor->search(cursor) ?: cursor->get_value(cursor, &v);
    int copied = KV_OK;
    if (code == 0)
        copied = kv_copy((struct kv_slice){v.data, v.size}, buffer, capacity, size);
    return finish(cursor, code) ?: copied;
}

/* A batch is one transaction; to any other write the engine gives its own. A write is repeated
 * while the engine asks for it, which it may do when its cache is short. */
static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    WT_SESSION *session = kv->session;
    WT_CURSOR *cursor = mode == KV_PUT ? kv->loose : kv->strict;
    int (*change)(WT_CURSOR *) = mode == KV_UPDATE   ? cursor->update
                                 : mode == KV_REMOVE ? cursor->remove
                                                     : cursor->insert;
    int code = WT_ROLLBACK;
    for (int tries = 0; tries < ROLLBACKS && code == WT_ROLLBACK; tries++) {
        code = mode == KV_PUT ? session->begin_transaction(session, NULL) : 0;
        if (code != 0)
            break;
        for (size_t i = 0; i < count && code == 0; i++) {
            const struct kv_slice none = {"", 0};
            WT_ITEM k = item(records[i].key);
            WT_ITEM v = item(mode == KV_REMOVE ? none : records[i].value);
            cursor->set_key(cursor, &k);
            cursor->set_value(cursor, &v);
            code = change(cursor);
        }
        if (mode == KV_PUT && code == 0)
            code = session->commit_transaction(session, NULL); /* rolls back when it fails */
        else if (mode == KV_PUT)
            session->rollback_transaction(session, NULL);
    }
    return finish(cursor, code);
}

static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    WT_CURSOR *cursor = kv->loose;
    WT_ITEM k = item(from), v;
    bool back = direction == KV_BACKWARD;
    int (*step)(WT_CURSOR *) = back ? cursor->prev : cursor->next;
    int code = 0, side = -1; /* of `from` on which the cursor stands; at first it is before all */
    if (back && from.size == 0)
        return KV_OK;
    if (from.size > 0) {
        cursor->set_key(cursor, &k);
        code = cursor->search_near(cursor, &side);
    }
    if (code == 0 && (back ? side > 0 : side < 0))
        code = step(cursor);
    for (; code == 0; code = step(cursor)) {
        code = cursor->get_key(cursor, &k) ?: cursor->get_value(cursor, &v);
        if (code != 0 || visit(context, (struct kv_slice){k.data, k.size},
                               (struct kv_slice){v.data, v.size}) != 0)
            break;
    }
    return finish(cursor, code == WT_NOTFOUND ? 0 : code);
}

/* The LSM tree merges while there is progress, and looks once a second. The B-tree is one sorted
 * piece: compaction moves blocks to the front of its file. */
static int compact(struct kv *kv)
{
    return status(kv->session->compact(kv->session, TABLE, "timeout=0")); /* no time limit */
}

static int sync_store(struct kv *kv)
{
    return status(kv->logged ? kv->session->log_flush(kv->session, "sync=on")
                             : kv->session->checkpoint(kv->session, NULL));
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    int64_t size = 0;
    char cache[64] = "100MB (shipped; not read back)";
    int code = kv->sized ? get_cache_size(kv->connection, kv->session, &size) : 0;
    if (kv->sized)
        snprintf(cache, sizeof cache, "%lld", (long long)size);
    snprintf(text, capacity, "cache_size=%s\nlog=%s\nsync=%s\n", cache, kv->logged ? "on" : "off",
             kv->synced ? "each write" : "off");
    return status(code ?: add_table_settings(kv->session, text, capacity));
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS,
    .name = KV_NAME,
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
    .write = write_records,
    .scan = scan,
    .compact = compact,
    .sync = sync_store,
    .effective_options = effective_options,
};
