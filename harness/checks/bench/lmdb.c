#include "bare.h"

#include <lmdb.h>

static MDB_env *env;
static MDB_dbi dbi;
static MDB_txn *reader;

static void open_store(const char *folder)
{
    MDB_txn *txn;
    need(mdb_env_create(&env) == 0 && mdb_env_set_mapsize(env, (size_t)1 << 40) == 0 &&
             mdb_env_open(env, folder, MDB_NOTLS | MDB_NOSYNC, 0666) == 0,
         "open");
    need(mdb_txn_begin(env, NULL, 0, &txn) == 0 && mdb_dbi_open(txn, NULL, 0, &dbi) == 0 &&
             mdb_txn_commit(txn) == 0,
         "open database");
    need(mdb_txn_begin(env, NULL, MDB_RDONLY, &reader) == 0, "begin");
    mdb_txn_reset(reader);
}

static int put(MDB_txn *txn, struct record *record, unsigned flags)
{
    MDB_val key = {KEY, record->key};
    MDB_val value = {record->size, (void *)(uintptr_t)record->value};
    return mdb_put(txn, dbi, &key, &value, flags);
}

static bool write_batch(struct record *records, size_t count)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(env, NULL, 0, &txn);
    for (size_t i = 0; i < count && code == 0; i++)
        code = put(txn, &records[i], 0);
    return code == 0 && mdb_txn_commit(txn) == 0;
}

static bool write_one(struct record *record, enum plan_operation operation)
{
    MDB_val key = {KEY, record->key}, old;
    MDB_txn *txn;
    int code = mdb_txn_begin(env, NULL, 0, &txn);
    if (code == 0 && operation == PLAN_REMOVE)
        return mdb_del(txn, dbi, &key, NULL) == 0 && mdb_txn_commit(txn) == 0;
    if (code == 0 && LOOK_UP && operation == PLAN_UPDATE)
        code = mdb_get(txn, dbi, &key, &old);
    if (code == 0)
        code = put(txn, record, LOOK_UP && operation == PLAN_INSERT ? MDB_NOOVERWRITE : 0);
    return code == 0 && mdb_txn_commit(txn) == 0;
}

static size_t get(unsigned char *bytes, void *buffer, size_t capacity)
{
    MDB_val key = {KEY, bytes}, value = {0, NULL};
    int code = mdb_txn_renew(reader);
    if (code == 0)
        code = mdb_get(reader, dbi, &key, &value);
    if (code == 0 && value.mv_size <= capacity)
        memcpy(buffer, value.mv_data, value.mv_size);
    mdb_txn_reset(reader);
    return code == 0 ? value.mv_size : SIZE_MAX;
}

static void close_store(void)
{
    mdb_txn_abort(reader);
    mdb_env_close(env);
}
