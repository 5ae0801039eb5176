/* Kyoto Cabinet's HashDB. */
#include "../shim.h"

static const char file_name[] = "records.kch";
enum { CAPABILITIES = KV_BATCH | KV_THREADS | KV_WRITERS };

#define OWN_SETTINGS                                                                               \
    {"durability", "none", .means = "no transactions, as shipped"},                                \
        {"durability", "process", .means = "KCOAUTOTRAN: each write a transaction"},               \
        {"durability", "recoverable", .lacks = "below sync nothing orders its log and its file"},  \
        {"durability", "sync",                                                                     \
         .means = "KCOAUTOTRAN, and each write in a transaction that is synced"},                  \
        {"durability", "atomic",                                                                   \
         .lacks =                                                                                  \
             "a log entry that a kill cuts off is rolled back with zeros at its end, so that "     \
             "an update of some KiB may leave neither value"},                                     \
        {"memory", "*",                                                                            \
         .lacks = "no cache of its own: it maps its file, so it leans on the operating system's "  \
                  "page cache"}

#include "kyoto_store.h"
