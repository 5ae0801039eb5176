#include "bare.h"

#include <db.h>

enum { CHECKPOINT_KIB = 32 << 10 };

static DB_ENV *env;
static DB *db;

static void open_store(const char *folder)
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
static bool write_batch(struct record *records, size_t count)
{
    size_t bytes = (4 * count + 1) * sizeof(u_int32_t) + count * KEY;
    for (size_t i = 0; i < count; i++)
        bytes += records[i].size;
    bytes = (bytes + 1023) / 1024 * 1024;
    DBT bulk = {
        .data = malloc(bytes), .ulen = (u_int32_t)bytes, .flags = DB_DBT_USERMEM | DB_DBT_BULK};
    DBT none = {.data = NULL};
    void *position;
    need(bulk.data != NULL, "malloc");
    DB_MULTIPLE_WRITE_INIT(position, &bulk);
    for (size_t i = 0; i < count && position != NULL; i++)
        DB_MULTIPLE_KEY_WRITE_NEXT(position, &bulk, records[i].key, KEY, records[i].value,
                                   records[i].size);
    bool well = position != NULL && db->put(db, NULL, &bulk, &none, DB_MULTIPLE_KEY) == 0 &&
                env->txn_checkpoint(env, CHECKPOINT_KIB, 0, 0) == 0;
    free(bulk.data);
    return well;
}

static bool write_one(struct record *record, enum plan_operation operation)
{
    DBT key = {.data = record->key, .size = KEY};
    DBT value = {.data = (void *)(uintptr_t)record->value, .size = (u_int32_t)record->size};
    u_int32_t flags = LOOK_UP && operation == PLAN_INSERT ? DB_NOOVERWRITE : 0;
    int code = LOOK_UP && operation == PLAN_UPDATE ? db->exists(db, NULL, &key, 0) : 0;
    if (code == 0)
        code = operation == PLAN_REMOVE ? db->del(db, NULL, &key, 0)
                                        : db->put(db, NULL, &key, &value, flags);
    return code == 0 && env->txn_checkpoint(env, CHECKPOINT_KIB, 0, 0) == 0;
}

static size_t get(unsigned char *bytes, void *buffer, size_t capacity)
{
    DBT key = {.data = bytes, .size = KEY};
    DBT value = {.data = buffer, .ulen = (u_int32_t)capacity, .flags = DB_DBT_USERMEM};
    return db->get(db, NULL, &key, &value, 0) == 0 ? value.size : SIZE_MAX;
}

static void close_store(void)
{
    need(db->close(db, 0) == 0 && env->close(env, 0) == 0, "close");
}
