/* HyperLevelDB, from the source in the npm package that hyperleveldb.cmake names. The library knows
 * only the version of LevelDB that it was forked from; the package's folder tells its own. */
#include "../shim.h"

#include <hyperleveldb/c.h>

static const char shipped[] = "write buffer 4 MiB";

static const char *version(void)
{
    static char text[32];
    snprintf(text, sizeof text, "1.0.2 (fork of LevelDB %d.%d)", leveldb_major_version(),
             leveldb_minor_version());
    return text;
}

#include "leveldb_store.h"
