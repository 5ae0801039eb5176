/* Tkrzw's HashDBM. */
#include "../kv.h"

static const char store_name[] = "tkrzw-hash";
static const char file_name[] = "records.tkh";
static const char type[] = "dbm=HashDBM";
static const char durable_parameters[] =
    ",update_mode=UPDATE_APPENDING,record_crc_mode=RECORD_CRC_32";
enum {
    CAPABILITIES = KV_BATCH | KV_THREADS,
    PAGE_SIZE = 1, /* none: no memory is ever given */
    SOFT_AT_PROCESS = false,
};

static const struct kv_setting settings[] = {
    {.name = "durability",
     .value = "none",
     .means = "records are written over in the mapped file, as shipped: one cut off may be lost"},
    {.name = "durability",
     .value = "process",
     .means = "UPDATE_APPENDING, RECORD_CRC_32: each record goes to the end of the mapped file"},
    {.name = "durability",
     .value = "sync",
     .means = "UPDATE_APPENDING, RECORD_CRC_32; a hard synchronize after each write"},
    {.name = "durability",
     .value = "*",
     .lacks = "its updates are atomic at every level that survives a crash"},
    {.name = "memory",
     .value = "*",
     .lacks = "no cache of its own: it maps its file, so it leans on the operating system's page "
              "cache"},
    {.name = "compression", .value = "none", .means = "values as they are, as shipped"},
    {.name = "compression", .value = "zlib", .means = "each value by zlib"},
    {.name = "compression", .value = "zstd", .means = "each value by Zstandard"},
    {.name = "compression", .value = "lz4", .means = "each value by LZ4"},
    {.name = "compression", .value = "lzma", .means = "each value by LZMA"},
    {.name = "compression", .value = "*", .lacks = "the engine has zlib, zstd, lz4 and lzma only"},
    {.name = NULL},
};

#include "tkrzw_store.h"
