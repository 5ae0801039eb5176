/* TidesDB 10.2.1 may lose an update that a thread commits while another flushes: after a clean close
 * its key has an older value. Prints such keys of some of 300 rounds.
 * cc -pthread tidesdb-lost-update.c -ltidesdb && ./a.out NEW_FOLDER */
#include <db.h>
#include <pthread.h>
#include <stdio.h>
static int last[1000], number; /* the number last committed for each key */
static _Atomic int flushed;
static tidesdb_t *db; static tidesdb_column_family_t *own; static tidesdb_txn_t *txn;
static int use(int key, int write) { /* returns the number that the key has */
    uint8_t *value = (uint8_t *)&number, *name = (uint8_t *)&key; size_t size = 4;
    tidesdb_txn_begin(db, &txn);
    if (write) tidesdb_txn_put(txn, own, name, 4, value, size, 0), tidesdb_txn_commit(txn);
    else tidesdb_txn_get(txn, own, name, 4, &value, &size);
    return tidesdb_txn_free(txn), *(int *)value;
}
static void *write_on(void *none) {
    for (int i = 0; i < 1000 || !flushed; i++) number++, last[i % 1000] = use(i % 1000, 1);
    return none;
}
int main(int count, char **arguments) {
    tidesdb_config_t config = tidesdb_default_config(); pthread_t writer;
    tidesdb_column_family_config_t family = tidesdb_default_column_family_config();
    config.db_path = arguments[count - 1], config.log_level = TDB_LOG_ERROR;
    for (int round = 0; round <= 300; round++, flushed = 1, pthread_join(writer, NULL), tidesdb_close(db)) {
        tidesdb_open(&config, &db), tidesdb_create_column_family(db, "f", &family), own = tidesdb_get_column_family(db, "f");
        for (int key = 0, now; key < 1000 && round; key++)
            if ((now = use(key, 0)) != last[key]) printf("round %d: key %d has %d, not %d\n", round, key, now, last[key]);
        flushed = 0, pthread_create(&writer, NULL, write_on, NULL), tidesdb_flush_memtable(db);
    }}
