/* Kyoto Cabinet's TreeDB: a B+ tree in a file hash database. */
#include "../shim.h"

static const char file_name[] = "records.kct";
enum { CAPABILITIES = KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS };

#define OWN_SETTINGS                                                                               \
    {"durability", "none", .means = "no transactions, as shipped"},                                \
        {"durability", "*",                                                                        \
         .lacks =                                                                                  \
             "KCOAUTOTRAN: the open after a kill in mid-write may fail, and then records are "     \
             "missing"},                                                                           \
        {"memory", .least = 1 << 20,                                                               \
         .means =                                                                                  \
             "pccap, the page cache, gets it all; the engine overruns it while pages are split"},  \
        {"page_size", .least = 512,                                                                \
         .means = "psiz: bytes at which a page is split; as shipped 8,192"}

#include "kyoto_store.h"
