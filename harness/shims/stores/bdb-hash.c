/* Berkeley DB's hash table. */
#include "../kv.h"

#include <db.h>

static const char store_name[] = "bdb-hash";
static const DBTYPE type = DB_HASH;
enum { CAPABILITIES = KV_BATCH };

#include "bdb_store.h"
