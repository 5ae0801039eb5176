/* Kyoto Cabinet's HashDB. */
#include "../shim.h"

static const char file_name[] = "records.kch";
enum { CAPABILITIES = KV_BATCH | KV_THREADS | KV_WRITERS };

#define OWN_SETTINGS                                                                               \
    {"durability", "none", .means = "no transactions, as shipped"},                                \
        {"durability", "process", .means = "KCOAUTOTRAN: each write a transaction"},               \
        {"durability", "sync",                                                                     \
         .means = "KCOAUTOTRAN, and each write in a transaction that is synced"},                  \
        {"durability", "*",                                                                        \
         .lacks = "its updates are atomic at every level that survives a crash"},                  \
        {"memory", "*",                                                                            \
         .lacks = "no cache of its own: it maps its file, so it leans on the operating system's "  \
                  "page cache"}

#include "kyoto_store.h"
