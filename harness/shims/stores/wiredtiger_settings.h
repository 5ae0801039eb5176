/* The settings of WiredTiger, and their values read back from the engine. The file that includes
 * this header defines LEAST_CACHE. The engine's calls return 0 or an error, so `a ?: b` calls b
 * only after a succeeded, and is the first error of the two. */
#include "../shim.h"

#include <dlfcn.h>
#include <libgen.h>
#include <unistd.h>
#include <wiredtiger.h>

#define TABLE "table:records"
/* A log, and a checkpoint each time that it has grown by 32 MB, which removes the older log. The
 * engine allocates a log file in full: as shipped 100 MB, and more of them ahead, by a thread. */
#define LOG "log=(enabled, file_max=16MB, prealloc=false), checkpoint=(log_size=32MB)"
#define WRITTEN LOG ", transaction_sync=(enabled, method=none)"
#define SYNCED LOG ", transaction_sync=(enabled, method=fsync)"

static const struct kv_setting settings[] = {
    {"durability", "none", .means = "no log"},
    {"durability", "process", .means = WRITTEN ": a commit writes the log"},
    {"durability", "recoverable", /* source.wiredtiger.com/3.2.1/tune_durability.html */
     .means = WRITTEN ": a commit writes the log, as at process"},
    {"durability", "sync", .means = SYNCED ": a commit syncs the log"},
    {"durability", "*", .lacks = "its updates are atomic at every level that survives a crash"},
    {"memory", .least = LEAST_CACHE, .means = "cache_size gets it all; a log has buffers besides"},
    {"compression", "none", .means = "as shipped"},
    {"compression", "snappy", .means = "block_compressor=snappy, an extension beside the library"},
    {"compression", "zlib", .means = "block_compressor=zlib, an extension beside the library"},
    {"compression", "*", .lacks = "the packaged engine has no extension for it"},
    {"checks", "on", .means = "checksum=on; as shipped only for blocks that are not compressed"},
    {"checks", "off", .means = "checksum=off"},
    {.name = NULL},
};

/* Writes the connection's configuration. Without options it is what ships: nothing but "create". A
 * compressor is an extension, which lies beside the loaded library. */
static int configure(const struct kv_option *options, size_t count, char *text, size_t capacity)
{
    char file[4096] = "", extension[4200];
    const char *compressor = kv_given(options, count, "compression") ?: "none";
    const char *memory = kv_given(options, count, "memory");
    Dl_info library;
    size_t used = (size_t)snprintf(text, capacity, "create");
    if (memory != NULL)
        used += (size_t)snprintf(text + used, capacity - used, ",cache_size=%s", memory);
    if (kv_durable(options, count))
        used += (size_t)snprintf(text + used, capacity - used, ",%s",
                                 kv_is(options, count, "durability", "sync") ? SYNCED : WRITTEN);
    if (strcmp(compressor, "none") == 0)
        return KV_OK;
    if (dladdr((void *)wiredtiger_open, &library) != 0)
        snprintf(file, sizeof file, "%s", library.dli_fname);
    snprintf(extension, sizeof extension, "%s/libwiredtiger_%s.so", dirname(file), compressor);
    if (access(extension, R_OK) != 0)
        return kv_fail("the engine's extension %s is missing", extension);
    snprintf(text + used, capacity - used, ",extensions=[\"%s\"]", extension);
    return KV_OK;
}

/* The engine states the cache's size only while it keeps statistics. */
static int get_cache_size(WT_CONNECTION *connection, WT_SESSION *session, int64_t *size)
{
    WT_CURSOR *row;
    const char *what, *printed;
    int code = connection->reconfigure(connection, "statistics=(fast)")
                   ?: session->open_cursor(session, "statistics:", NULL, NULL, &row);
    if (code == 0) {
        row->set_key(row, WT_STAT_CONN_CACHE_BYTES_MAX);
        code = row->search(row) ?: row->get_value(row, &what, &printed, size);
        int closed = row->close(row);
        code = code ?: closed;
    }
    int stopped = connection->reconfigure(connection, "statistics=(none)");
    return code ?: stopped;
}

/* Adds lines on the table, from the engine's own record of its configuration. */
static int add_table_settings(WT_SESSION *session, char *text, size_t capacity)
{
    static const char *const lines[][2] = {
        {"type", "type"},
        {"block_compressor", "block_compressor"},
        {"leaf_page_max", "leaf_page_max"},
        {"memory_page_max", "memory_page_max"},
        {"compression", "block_compressor"},
    };
    WT_CURSOR *row;
    WT_CONFIG_PARSER *parser = NULL;
    WT_CONFIG_ITEM found;
    const char *configuration;
    int code = session->open_cursor(session, "metadata:create", NULL, NULL, &row);
    if (code != 0)
        return code;
    row->set_key(row, TABLE);
    code = row->search(row) ?: row->get_value(row, &configuration)
           ?: wiredtiger_config_parser_open(NULL, configuration, strlen(configuration), &parser);
    for (size_t i = 0; i < sizeof lines / sizeof *lines && code == 0; i++) {
        size_t used = strlen(text);
        code = parser->get(parser, lines[i][1], &found);
        if (code == 0)
            snprintf(text + used, capacity - used, "%s=%.*s\n", lines[i][0], (int)found.len,
                     found.str);
        if (code == WT_NOTFOUND)
            code = 0;
    }
    if (parser != NULL)
        parser->close(parser);
    int closed = row->close(row);
    return code ?: closed;
}
