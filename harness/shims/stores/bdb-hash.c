/* Berkeley DB's hash table. */
#include "../shim.h"

#include <db.h>

static const DBTYPE type = DB_HASH;
enum {
    CAPABILITIES = KV_BATCH,
    /* Version 5.3.28 loses a record that shares its page with a longer key of which its key is the
     * beginning, if that key takes more than a quarter of the page. The smallest page has 512
     * bytes. */
    MAX_KEY = 128,
};

#include "bdb_store.h"
