/* Berkeley DB's B-tree. */
#include "../shim.h"

#include <db.h>

static const DBTYPE type = DB_BTREE;
enum { CAPABILITIES = KV_BATCH | KV_SCAN, MAX_KEY = UINT32_MAX / 4 };

#include "bdb_store.h"
