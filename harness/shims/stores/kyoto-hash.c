/* Kyoto Cabinet's HashDB. */
#include "../kv.h"

static const char store_name[] = "kyoto-hash";
static const char file_name[] = "records.kch";
enum { CAPABILITIES = KV_BATCH | KV_THREADS };

#include "kyoto_store.h"
