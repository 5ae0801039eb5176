/* LevelDB 1.23 loses acknowledged, synced writes that follow a failed write.
 * cc leveldb-write-error.c -lleveldb && ./a.out NEW_FOLDER
 * A file may have 40,000 bytes here, so that a write fails half-way, as on a full disk. */
#include <leveldb/c.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

int main(int count, char **arguments)
{
    static char large[60000];
    char *error = NULL, *refused = NULL;
    size_t size;
    if (count != 2) return 2;
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_writeoptions_t *synced = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(synced, 1);
    leveldb_t *db = leveldb_open(options, arguments[1], &error);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){40000, RLIM_INFINITY});
    leveldb_put(db, synced, "a", 1, large, sizeof large, &refused);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    leveldb_put(db, synced, "b", 1, "value", 5, &error);
    printf("a: %s\nb: %s\n", refused ? refused : "ok", error ? error : "ok");
    leveldb_close(db);
    db = leveldb_open(options, arguments[1], &error);
    char *found = leveldb_get(db, leveldb_readoptions_create(), "b", 1, &size, &error);
    printf("opened again, b: %s, error: %s\n", found ? "there" : "missing", error ? error : "none");
}
