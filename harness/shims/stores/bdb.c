/* Berkeley DB's B-tree. */
#include "../kv.h"

#include <db.h>

static const char store_name[] = "bdb";
static const DBTYPE type = DB_BTREE;
enum { CAPABILITIES = KV_BATCH | KV_SCAN };

#include "bdb_store.h"
