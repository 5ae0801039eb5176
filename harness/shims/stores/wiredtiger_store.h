/* WiredTiger: a table of raw bytes. As shipped it has no log, so writes reach the disk with a
 * checkpoint, at close or sync; for a durability above none it has one. The file that includes this
 * header defines table_type, LEAST_CACHE, MAX_KEY and MAX_VALUE. The engine's own limit
 * is a little below 4 GiB, but with the shipped cache we saw no write beyond MAX_KEY and MAX_VALUE
 * work. A session and its cursors serve one thread. */
#include "wiredtiger_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/sendfile.h>
#include <unistd.h>

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

/* Copies the data of a file, not its holes: a log file has its full size from the start. */
static int copy_data(int from, int to)
{
    off_t size = lseek(from, 0, SEEK_END), at = 0;
    if (size < 0 || ftruncate(to, size) != 0)
        return errno;
    while (at < size) {
        at = lseek(from, at, SEEK_DATA);
        if (at < 0)
            return errno == ENXIO ? 0 : errno; /* only a hole is left */
        off_t end = lseek(from, at, SEEK_HOLE);
        if (end < 0 || lseek(to, at, SEEK_SET) < 0)
            return errno;
        while (at < end && at < size)
            if (sendfile(to, from, &at, (size_t)(end - at)) <= 0)
                return EIO;
    }
    return 0;
}

static int copy_file(const char *from, const char *to, const char *name)
{
    char source[4096], target[4096];
    if (snprintf(source, sizeof source, "%s/%s", from, name) >= (int)sizeof source ||
        snprintf(target, sizeof target, "%s/%s", to, name) >= (int)sizeof target)
        return ENAMETOOLONG;
    int in = open(source, O_RDONLY | O_CLOEXEC), out = -1, code = 0;
    if (in >= 0)
        out = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    code = out < 0 ? errno : copy_data(in, out);
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0)
        code = code ?: errno;
    return code;
}

/* The files of a checkpoint, which a backup cursor names and keeps until it is closed, and of the
 * log. */
static int backup(struct kv *kv, const char *path)
{
    WT_SESSION *session = kv->session;
    WT_CURSOR *cursor;
    const char *name;
    int code = session->checkpoint(session, NULL)
                   ?: session->open_cursor(session, "backup:", NULL, NULL, &cursor);
    if (code != 0)
        return status(code);
    while ((code = cursor->next(cursor)) == 0 && (code = cursor->get_key(cursor, &name)) == 0)
        if ((code = copy_file(kv->connection->get_home(kv->connection), path, name)) != 0)
            break;
    int closed = cursor->close(cursor);
    return status(code == WT_NOTFOUND ? closed : code);
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
    .backup = backup,
    .sync = sync_store,
    .effective_options = effective_options,
};
