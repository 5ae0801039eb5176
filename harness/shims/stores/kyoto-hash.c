/* Kyoto Cabinet's HashDB. */
#include "../kv.h"

static const char store_name[] = "kyoto-hash";
static const char file_name[] = "records.kch";
enum { CAPABILITIES = KV_BATCH | KV_THREADS };

#define OWN_SETTINGS                                                                               \
    {.name = "durability", .value = "none", .means = "no transactions, as shipped"},               \
    {.name = "durability", .value = "process", .means = "KCOAUTOTRAN: each write a transaction"},  \
    {.name = "durability",                                                                         \
     .value = "sync",                                                                              \
     .means = "KCOAUTOTRAN, and each write in a transaction that is synced"},                      \
    {.name = "durability",                                                                         \
     .value = "*",                                                                                 \
     .lacks = "its updates are atomic at every level that survives a crash"},                      \
    {.name = "memory",                                                                             \
     .value = "*",                                                                                 \
     .lacks = "no cache of its own: it maps its file, so it leans on the operating system's "      \
              "page cache"}

#include "kyoto_store.h"
