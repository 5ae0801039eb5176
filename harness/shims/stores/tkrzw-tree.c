/* Tkrzw's TreeDBM: a B+ tree in a file hash database. Once it was opened again, a scan backwards may
 * pass over records (seen where pages hold few large ones): the engine does not keep all its links
 * from page to page backwards. Gets and forward scans find them all. */
#include "../kv.h"

static const char store_name[] = "tkrzw-tree";
static const char file_name[] = "records.tkt";
static const char type[] = "dbm=TreeDBM";
/* A write changes several pages: after a crash all those of the last synchronize count, or none. */
static const char durable_parameters[] =
    ",update_mode=UPDATE_APPENDING,record_crc_mode=RECORD_CRC_32,restore_mode=RESTORE_SYNC";
enum {
    CAPABILITIES = KV_BATCH | KV_SCAN | KV_THREADS,
    PAGE_SIZE = 8130, /* at which a page is split, as shipped */
    SOFT_AT_PROCESS = true,
};

static const struct kv_setting settings[] = {
    {.name = "durability", .value = "none", .means = "pages stay in the process, as shipped"},
    {.name = "durability",
     .value = "process",
     .means = "UPDATE_APPENDING, RECORD_CRC_32, RESTORE_SYNC; a soft synchronize after each write"},
    {.name = "durability",
     .value = "sync",
     .means = "UPDATE_APPENDING, RECORD_CRC_32, RESTORE_SYNC; a hard synchronize after each write"},
    {.name = "durability",
     .value = "*",
     .lacks = "its updates are atomic at every level that survives a crash"},
    {.name = "memory",
     .least = 1 << 20,
     .means = "max_cached_pages: one for each 8,130 bytes, the largest page"},
    {.name = "compression", .value = "none", .means = "pages as they are, as shipped"},
    {.name = "compression", .value = "zlib", .means = "each page by zlib"},
    {.name = "compression", .value = "zstd", .means = "each page by Zstandard"},
    {.name = "compression", .value = "lz4", .means = "each page by LZ4"},
    {.name = "compression", .value = "lzma", .means = "each page by LZMA"},
    {.name = "compression", .value = "*", .lacks = "the engine has zlib, zstd, lz4 and lzma only"},
    {.name = NULL},
};

#include "tkrzw_store.h"
