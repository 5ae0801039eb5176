/* Tkrzw's HashDBM. */
#include "../kv.h"

static const char store_name[] = "tkrzw-hash";
static const char file_name[] = "records.tkh";
static const char type[] = "dbm=HashDBM";
enum { CAPABILITIES = KV_BATCH | KV_THREADS };

#include "tkrzw_store.h"
