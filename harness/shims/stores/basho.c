/* Basho's LevelDB, from the source in the npm package that basho.cmake names. It states no
 * version of its own; its header says which LevelDB it was forked from. An open store leaves behind
 * a small shared-memory segment of counters (System V, key 0xa0f7) and threads that run until
 * exit. Such threads sync what the log's map has outgrown, 20 MiB at a time, and let the kernel
 * drop it from its cache. In this fork the tables of level 1 overlap, too, and as long as no level
 * below has any, compact leaves them side by side there. */
#include "../shim.h"

#include <leveldb/c.h>

static const char shipped[] = "write buffer 60 MiB, logs synced in the background";

static const char *version(void)
{
    return "leveldown-basho 0.10.1 (fork of LevelDB 1.5)";
}

/* The fork is older than this function of the API; it allocates with malloc. */
static void leveldb_free(void *data)
{
    free(data);
}

#include "leveldb_store.h"
