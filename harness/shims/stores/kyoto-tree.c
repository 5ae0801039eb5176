/* Kyoto Cabinet's TreeDB: a B+ tree in a file hash database. */
#include "../kv.h"

static const char store_name[] = "kyoto-tree";
static const char file_name[] = "records.kct";
enum { CAPABILITIES = KV_BATCH | KV_SCAN | KV_THREADS };

#include "kyoto_store.h"
