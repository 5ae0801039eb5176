/* Tkrzw 1.0.25: a hard synchronize() syncs a header that says "closed", and marks the file as open
 * again without a sync. If power fails when a bucket is on disk, but not the appended record to
 * which it points, the file counts as closed and is not restored: a synced record is lost.
 * cc tkrzw-hash-power-loss.c -ltkrzw && ./a.out NEW_FILE OTHER_NEW_FILE */
#include <fcntl.h>
#include <stdio.h>
#include <tkrzw_langc.h>
#include <unistd.h>
enum { BLOCK = 4096, BUCKETS = 4 << 20 }; /* bytes; the records follow the buckets */
static char synced[16 << 20], later[16 << 20];
static ssize_t size;
static void copy(void *path, const char *same) { /* called when all is synced */
    size = pread(open(path, O_RDONLY), synced, sizeof synced, 0);
}
int main(int count, char **arguments) {
    static const char how[] = "dbm=HashDBM,update_mode=UPDATE_APPENDING,"
                              "restore_mode=RESTORE_SYNC:RESTORE_NO_SHORTCUTS";
    if (count != 3) return 2;
    TkrzwDBM *dbm = tkrzw_dbm_open(arguments[1], true, how);
    tkrzw_dbm_set(dbm, "key", 3, "1", 1, true);
    bool done = tkrzw_dbm_synchronize(dbm, true, copy, arguments[1], "");
    tkrzw_dbm_set(dbm, "key", 3, "2", 1, true);
    pread(open(arguments[1], O_RDONLY), later, sizeof later, 0);
    int other = open(arguments[2], O_CREAT | O_WRONLY, 0600); /* what power loss leaves */
    pwrite(other, synced, size, 0);
    pwrite(other, later + BLOCK, BUCKETS - BLOCK, BLOCK); /* only the buckets of the second set */
    dbm = tkrzw_dbm_open(arguments[2], true, how);
    char *value = tkrzw_dbm_get(dbm, "key", 3, NULL);
    printf("synced: %d, now: %s\n", done, value ? value : tkrzw_get_last_status_message());
}
