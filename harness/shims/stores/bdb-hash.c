/* Berkeley DB's hash table. */
#include "../kv.h"

#include <db.h>

static const char store_name[] = "bdb-hash";
static const DBTYPE type = DB_HASH;
enum {
    CAPABILITIES = KV_BATCH,
    /* The engine loses sight of a record (5.3.28) that shares its page with a key of more than a
     * quarter of one, of which it is the beginning. The smallest page has 512 bytes. */
    MAX_KEY = 128,
};

#include "bdb_store.h"
