/* Tkrzw's TreeDBM: a B+ tree in a file hash database. After a second open a backward scan may skip
 * records (seen where pages hold few large ones), because the engine does not keep all its backward
 * links between pages. Gets and forward scans find them all. */
#include "../shim.h"

static const char file_name[] = "records.tkt";
static const char type[] = "dbm=TreeDBM";
/* A write changes several pages: after a crash all those of the last synchronize count, or none. */
static const char durable_parameters[] =
    ",update_mode=UPDATE_APPENDING,record_crc_mode=RECORD_CRC_32,restore_mode=RESTORE_SYNC";
enum {
    CAPABILITIES = KV_BATCH | KV_SCAN | KV_THREADS | KV_WRITERS,
    PAGE_SIZE = 8130, /* at which a page is split, as shipped */
    SOFT_AT_PROCESS = true,
};

static const struct kv_setting settings[] = {
    {"durability", "none", .means = "pages stay in the process, as shipped"},
    {"durability", "process",
     .means = "UPDATE_APPENDING, RECORD_CRC_32, RESTORE_SYNC; a soft synchronize after each write"},
    {"durability", "recoverable",
     .lacks = "below a hard synchronize nothing orders the writes to its mapped file"},
    {"durability", "sync",
     .means = "UPDATE_APPENDING, RECORD_CRC_32, RESTORE_SYNC; a hard synchronize after each write"},
    {"durability", "*", .lacks = "its updates are atomic at every level that survives a crash"},
    {"memory", .least = 1 << 20,
     .means = "max_cached_pages: one for each 8,130 bytes, the largest page"},
    {"compression", "none", .means = "pages as they are, as shipped"},
    {"compression", "zlib", .means = "each page by zlib"},
    {"compression", "zstd", .means = "each page by Zstandard"},
    {"compression", "lz4", .means = "each page by LZ4"},
    {"compression", "lzma", .means = "each page by LZMA"},
    {"compression", "*", .lacks = "the engine has zlib, zstd, lz4 and lzma only"},
    {"checks", "on", .means = "RECORD_CRC_32: each record has a checksum"},
    {.name = NULL},
};

#include "tkrzw_store.h"
