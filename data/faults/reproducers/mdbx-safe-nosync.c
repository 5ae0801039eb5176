/* libmdbx 0.14.4 at MDBX_SAFE_NOSYNC: an empty commit marks its meta page as steady without a sync;
 * later ones overwrite the steady page before. If that write is lost, so is all that was closed.
 * cc mdbx-safe-nosync.c -lmdbx; mkdir NEW; as root, without the boot ID, as after a restart:
 * unshare -m sh -c 'mount --bind /dev/null /proc/sys/kernel/random/boot_id; strace -f ./a.out NEW' */
#include <fcntl.h>
#include <mdbx.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static MDBX_env *commit(MDBX_env *env, int put) { /* returns the store, opened if it was not */
    MDBX_txn *txn;
    MDBX_dbi dbi;
    MDBX_val key = {&put, 4}, one = {&(int){1}, 4}, found;
    if (!env) mdbx_env_create(&env), mdbx_env_open(env, ".", MDBX_SAFE_NOSYNC, 0600);
    mdbx_txn_begin(env, NULL, MDBX_TXN_READWRITE, &txn);
    mdbx_dbi_open(txn, NULL, MDBX_DB_DEFAULTS, &dbi);
    if (put) mdbx_put(txn, dbi, &key, &key, MDBX_UPSERT);
    printf("record 1: %s\n", mdbx_strerror(mdbx_get(txn, dbi, &one, &found)));
    return mdbx_txn_commit(txn) ? NULL : env;
}
int main(int count, char **arguments) {
    static char page[4096];
    if (count != 2 || chdir(arguments[1]) != 0) return 2;
    if (fork()) return wait(NULL) < 0 || !commit(NULL, 0);
    mdbx_env_close(commit(NULL, 1)); /* all is on disk; then the machine that loses power: */
    pread(open("mdbx.dat", O_RDONLY), page, sizeof page, 4096);
    MDBX_env *env = commit(NULL, 0); /* writes page 1 */
    for (int put = 2; put < 6; put++) commit(env, put);
    _exit(pwrite(open("mdbx.dat", O_WRONLY), page, sizeof page, 4096) < 0); /* that write is lost */
}
