#include "bare.h"

#include <lmdb.h>

static MDB_env *env;
static MDB_dbi dbi;
static MDB_txn *reader;

void bare_open(const char *folder)
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

void bare_fill(const struct bare *bare, const struct bench_plan *plan, size_t batch,
               uint64_t *nanoseconds)
{
    static unsigned char keys[BARE_BATCH][RECORDS_KEY_SIZE];
    for (size_t first = 0, n = 0, count; first < plan->count; first += count, n++) {
        MDB_txn *txn;
        count = batch_keys(bare, plan, first, batch, keys);
        uint64_t start = now();
        int code = mdb_txn_begin(env, NULL, 0, &txn);
        for (size_t i = 0; i < count && code == 0; i++) {
            MDB_val key = {RECORDS_KEY_SIZE, keys[i]};
            MDB_val value = {plan->size[first + i],
                             (void *)(uintptr_t)(bare->pool + plan->offset[first + i])};
            code = mdb_put(txn, dbi, &key, &value, 0);
        }
        if (code == 0)
            code = mdb_txn_commit(txn);
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
        MDB_val key = {sizeof bytes, bytes}, old;
        MDB_val value = {plan->size[i], (void *)(uintptr_t)fresh(bare, plan, i)};
        MDB_txn *txn;
        uint64_t start = now();
        int code = mdb_txn_begin(env, NULL, 0, &txn);
        if (code == 0 && look_up)
            code = mdb_get(txn, dbi, &key, &old);
        if (code == 0)
            code = mdb_put(txn, dbi, &key, &value, 0);
        if (code == 0)
            code = mdb_txn_commit(txn);
        nanoseconds[i] = now() - start;
        need(code == 0, "update");
    }
}

void bare_get(const struct bare *bare, const struct bench_plan *plan, uint64_t *nanoseconds)
{
    for (size_t i = 0; i < plan->count; i++) {
        unsigned char bytes[RECORDS_KEY_SIZE];
        records_key(plan->number[i], bare->stride, bytes);
        MDB_val key = {sizeof bytes, bytes}, value = {0, NULL};
        uint64_t start = now();
        int code = mdb_txn_renew(reader);
        if (code == 0)
            code = mdb_get(reader, dbi, &key, &value);
        if (code == 0 && value.mv_size <= bare->capacity)
            memcpy(bare->buffer, value.mv_data, value.mv_size);
        mdb_txn_reset(reader);
        nanoseconds[i] = now() - start;
        need(code == 0 && value.mv_size == plan->size[i], "get");
    }
}

void bare_close(void)
{
    mdb_txn_abort(reader);
    mdb_env_close(env);
}
