/* Tkrzw's HashDBM. */
#include "../shim.h"

static const char file_name[] = "records.tkh";
static const char type[] = "dbm=HashDBM";
static const char durable_parameters[] =
    ",update_mode=UPDATE_APPENDING,record_crc_mode=RECORD_CRC_32";
enum {
    CAPABILITIES = KV_BATCH | KV_THREADS | KV_WRITERS,
    PAGE_SIZE = 1, /* none: the store takes no memory setting */
    SOFT_AT_PROCESS = false,
};

static const struct kv_setting settings[] = {
    {"durability", "none",
     .means = "records are written over in the mapped file, as shipped: one cut off may be lost"},
    {"durability", "process",
     .means = "UPDATE_APPENDING, RECORD_CRC_32: each record goes to the end of the mapped file, "
              "which grows until the program rebuilds it"},
    {"durability", "recoverable",
     .lacks = "below a hard synchronize nothing orders the writes to its mapped file"},
    {"durability", "sync",
     .means = "UPDATE_APPENDING, RECORD_CRC_32; a hard synchronize after each write"},
    {"durability", "*", .lacks = "its updates are atomic at every level that survives a crash"},
    {"memory", "*",
     .lacks = "no cache of its own: it maps its file, so it leans on the operating system's page "
              "cache"},
    {"compression", "none", .means = "values as they are, as shipped"},
    {"compression", "zlib", .means = "each value by zlib"},
    {"compression", "zstd", .means = "each value by Zstandard"},
    {"compression", "lz4", .means = "each value by LZ4"},
    {"compression", "lzma", .means = "each value by LZMA"},
    {"compression", "*", .lacks = "the engine has zlib, zstd, lz4 and lzma only"},
    {"checks", "on", .means = "RECORD_CRC_32: each record has a checksum"},
    {.name = NULL},
};

#include "tkrzw_store.h"
