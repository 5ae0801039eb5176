/* Tkrzw's TreeDBM: a B+ tree in a file hash database. */
#include "../kv.h"

static const char store_name[] = "tkrzw-tree";
static const char file_name[] = "records.tkt";
static const char type[] = "dbm=TreeDBM";
enum { CAPABILITIES = KV_BATCH | KV_SCAN | KV_THREADS };

#include "tkrzw_store.h"
