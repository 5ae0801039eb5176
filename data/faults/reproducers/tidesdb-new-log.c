/* TidesDB 10.2.1 does not open after a power failure in which it had just begun a new log: the size
 * of that file is on disk, but its eight bytes are not, and read as zeros.
 * cc tidesdb-new-log.c -ltidesdb && ./a.out NEW_FOLDER */
#include <db.h>
#include <stdio.h>
int main(int count, char **arguments) {
    char log[4096];
    tidesdb_t *db;
    tidesdb_txn_t *txn;
    if (count != 2) return 2;
    tidesdb_column_family_config_t family = tidesdb_default_column_family_config();
    tidesdb_config_t config = tidesdb_default_config();
    config.db_path = arguments[1], config.memtable_sync_mode = TDB_SYNC_FULL;
    int code = tidesdb_open(&config, &db) ?: tidesdb_create_column_family(db, "f", &family);
    tidesdb_column_family_t *own = tidesdb_get_column_family(db, "f");
    code = code ?: tidesdb_txn_begin(db, &txn);
    code = code ?: tidesdb_txn_put(txn, own, (uint8_t *)"key", 3, (uint8_t *)"value", 5, 0);
    code = code ?: tidesdb_txn_commit(txn) ?: tidesdb_close(db);
    snprintf(log, sizeof log, "%s/%012d.log", arguments[1], 1); /* the next one */
    FILE *file = fopen(log, "w");
    fwrite((char[8]){0}, 1, 8, file), fclose(file);
    fprintf(stderr, "written: %s\n", tidesdb_strerror(code));
    fprintf(stderr, "opened again: %s\n", tidesdb_strerror(tidesdb_open(&config, &db)));
}
