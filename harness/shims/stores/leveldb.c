/* LevelDB. */
#include "../shim.h"

#include <leveldb/c.h>

static const char shipped[] = "write buffer 4 MiB";

static const char *version(void)
{
    static char text[64];
    snprintf(text, sizeof text, "%d.%d" KV_BUILD, leveldb_major_version(), leveldb_minor_version());
    return text;
}

#include "leveldb_store.h"
