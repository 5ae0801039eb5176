#include "bare.h"

#include <db.h>

enum { CHECKPOINT_KIB = 32 << 10 };

static DB_ENV *env;
static DB *db;

void bare_open(const char *folder)
{
    need(db_env_create(&env, 0) == 0 &&
             env->set_flags(env, DB_AUTO_COMMIT | DB_TXN_WRITE_NOSYNC, 1) == 0 &&
             env->log_set_config(env, DB_LOG_AUTO_REMOVE, 1) == 0 &&
             env->open(env, folder,
                       DB_CREATE | DB_PRIVATE | DB_RECOVER | DB_INIT_MPOOL | DB_INIT_LOG |
                           DB_INIT_TXN,
                       0666) == 0,
         "open environment");
    need(db_create(&db, env, 0) == 0 &&
             db->open(db, NULL, "records.db", NULL, DB_BTREE, DB_CREATE, 0666) == 0,
         "open");
}

/* One bulk put a batch: bytes from the buffer's start, four words a record from its end. */
void bare_fill(const struct bare *bare, const struct bench_plan *plan, size_t batch,
               uint64_t *nanoseconds)
{
    static unsigned char keys[BARE_BATCH][RECORDS_KEY_SIZE];
    for (size_t first = 0, n = 0, count; first < plan->count; first += count, n++) {
        count = batch_keys(bare, plan, first, batch, keys);
        uint64_t start = now();
        size_t bytes = (4 * count + 1) * sizeof(u_int32_t) + count * RECORDS_KEY_SIZE;
        for (size_t i = 0; i < count; i++)
            bytes += plan->size[first + i];
        bytes = (bytes + 1023) / 1024 * 1024;
        DBT bulk = {.data = malloc(bytes), .ulen = (u_int32_t)bytes,
                    .flags = DB_DBT_USERMEM | DB_DBT_BULK};
        DBT none = {.data = NULL};
        void *position;
        need(bulk.data != NULL, "malloc");
        DB_MULTIPLE_WRITE_INIT(position, &bulk);
        for (size_t i = 0; i < count && position != NULL; i++)
            DB_MULTIPLE_KEY_WRITE_NEXT(position, &bulk, keys[i], RECORDS_KEY_SIZE,
                                       bare->pool + plan->offset[first + i],
                                       plan->size[first + i]);
        int code = position == NULL ? DB_BUFFER_SMALL
                                    : db->put(db, NULL, &bulk, &none, DB_MULTIPLE_KEY);
        if (code == 0)
            code = env->txn_checkpoint(env, CHECKPOINT_KIB, 0, 0);
        free(bulk.data);
        nanoseconds[n] = now() - start;
        need(code == 0, "write");
    }
}

void bare_update(const struct bare *bare, const struct bench_plan *plan, bool look_up,
                 uint64_t *nanoseconds)
{
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char bytes[RECORDS_KEY_SIZE];
        records_key(plan->number[i], bare->stride, bytes);
        DBT key = {.data = bytes, .size = sizeof bytes};
        DBT value = {.data = (void *)(uintptr_t)fresh(bare, plan, i), .size = plan->size[i]};
        int code = 0;
        uint64_t start = now();
        if (look_up)
            code = db->exists(db, NULL, &key, 0);
        if (code == 0)
            code = db->put(db, NULL, &key, &value, 0);
        if (code == 0)
            code = env->txn_checkpoint(env, CHECKPOINT_KIB, 0, 0);
        nanoseconds[i] = now() - start;
        need(code == 0, "update");
    }
}

void bare_get(const struct bare *bare, const struct bench_plan *plan, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char bytes[RECORDS_KEY_SIZE];
        records_key(plan->number[i], bare->stride, bytes);
        DBT key = {.data = bytes, .size = sizeof bytes};
        DBT value = {.data = bare->buffer, .ulen = (u_int32_t)bare->capacity,
                     .flags = DB_DBT_USERMEM};
        uint64_t start = now();
        int code = db->get(db, NULL, &key, &value, 0);
        nanoseconds[i] = now() - start;
        need(code == 0 && value.size == plan->size[i], "get");
    }
}

void bare_close(void)
{
    need(db->close(db, 0) == 0 && env->close(env, 0) == 0, "close");
}
