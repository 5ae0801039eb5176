/* What can be set of WiredTiger, and reading it back. The file that includes this has defined
 * table_type and LEAST_CACHE. */
#include "../kv.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
#include <wiredtiger.h>

#define TABLE "table:records"
/* A log, and a checkpoint each time that it has grown by so much, which removes what is older. A
 * file of it is allocated in full: as shipped 100 MB, and more of them ahead, by a thread. */
#define LOG                                                                     \
    ",log=(enabled,file_max=16MB,prealloc=false),checkpoint=(log_size=32MB)" \
    ",transaction_sync=(enabled,method="

static const struct kv_setting settings[] = {
    {.name = "durability", .value = "none", .means = "no log"},
    {.name = "durability",
     .value = "process",
     .means = "log=(enabled), transaction_sync=(enabled, method=none): a commit writes the log"},
    {.name = "durability",
     .value = "sync",
     .means = "log=(enabled), transaction_sync=(enabled, method=fsync): a commit syncs the log"},
    {.name = "durability",
     .value = "*",
     .lacks = "its updates are atomic at every level that survives a crash"},
    {.name = "memory",
     .least = LEAST_CACHE,
     .means = "cache_size gets it all; a log has its buffers besides"},
    {.name = "compression", .value = "none", .means = "as shipped"},
    {.name = "compression",
     .value = "snappy",
     .means = "block_compressor=snappy, from the extension beside the library"},
    {.name = "compression",
     .value = "zlib",
     .means = "block_compressor=zlib, from the extension beside the library"},
    {.name = "compression", .value = "*", .lacks = "the packaged engine has no extension for it"},
    {.name = NULL},
};

/* The extension lies beside the library that is loaded. */
static int find_extension(const char *compressor, char *text, size_t capacity)
{
    char path[4096];
    Dl_info library;
    void *function;
    int (*open)(const char *, WT_EVENT_HANDLER *, const char *, WT_CONNECTION **) = wiredtiger_open;
    memcpy(&function, &open, sizeof function); /* ISO C has no such cast */
    const char *slash = dladdr(function, &library) == 0 ? NULL : strrchr(library.dli_fname, '/');
    if (slash == NULL)
        return kv_fail("the folder of the engine's library is unknown");
    snprintf(path, sizeof path, "%.*s/libwiredtiger_%s.so", (int)(slash - library.dli_fname),
             library.dli_fname, compressor);
    if (access(path, R_OK) != 0)
        return kv_fail("the engine's extension %s is missing", path);
    snprintf(text, capacity, ",extensions=[\"%s\"]", path);
    return KV_OK;
}

/* Without options what ships: nothing but "create". */
static int configure(const struct kv_option *options, size_t count, char *text, size_t capacity)
{
    char extension[4200] = "";
    const char *compressor = kv_given(options, count, "compression");
    const char *memory = kv_given(options, count, "memory");
    const char *log = "";
    if (kv_is(options, count, "durability", "process"))
        log = LOG "none)";
    if (kv_is(options, count, "durability", "sync"))
        log = LOG "fsync)";
    if (compressor != NULL && strcmp(compressor, "none") != 0 &&
        find_extension(compressor, extension, sizeof extension) != KV_OK)
        return KV_ERROR;
    snprintf(text, capacity, "create%s%s%s%s", memory == NULL ? "" : ",cache_size=",
             memory == NULL ? "" : memory, log, extension);
    return KV_OK;
}

static void configure_table(const struct kv_option *options, size_t count, char *text,
                            size_t capacity)
{
    const char *compressor = kv_given(options, count, "compression");
    bool compressed = compressor != NULL && strcmp(compressor, "none") != 0;
    snprintf(text, capacity, "%s%s%s", table_type, compressed ? ",block_compressor=" : "",
             compressed ? compressor : "");
}

/* The cache's size as the engine states it, which it does only while it keeps statistics. */
static int get_cache_size(WT_CONNECTION *connection, WT_SESSION *session, int64_t *size)
{
    WT_CURSOR *statistics;
    const char *what, *printed;
    int code = connection->reconfigure(connection, "statistics=(fast)");
    if (code != 0)
        return code;
    code = session->open_cursor(session, "statistics:", NULL, NULL, &statistics);
    if (code == 0) {
        statistics->set_key(statistics, WT_STAT_CONN_CACHE_BYTES_MAX);
        code = statistics->search(statistics);
        if (code == 0)
            code = statistics->get_value(statistics, &what, &printed, size);
        int closed = statistics->close(statistics);
        if (code == 0)
            code = closed;
    }
    int stopped = connection->reconfigure(connection, "statistics=(none)");
    return code == 0 ? stopped : code;
}

/* Adds "label=value" of the table's configuration, as the engine keeps it under that name. */
static int add_setting(WT_CONFIG_PARSER *parser, const char *label, const char *name, char *text,
                       size_t capacity)
{
    WT_CONFIG_ITEM found;
    size_t used = strlen(text);
    int code = parser->get(parser, name, &found);
    if (code == 0)
        snprintf(text + used, capacity - used, "%s=%.*s\n", label,
                 found.len == 0 ? 4 : (int)found.len, found.len == 0 ? "none" : found.str);
    return code == WT_NOTFOUND ? 0 : code;
}

/* Adds lines on the table, from the engine's own record of it. */
static int add_table_settings(WT_SESSION *session, char *text, size_t capacity)
{
    static const struct {
        const char *label, *name;
    } lines[] = {
        {"type", "type"},
        {"block_compressor", "block_compressor"},
        {"leaf_page_max", "leaf_page_max"},
        {"memory_page_max", "memory_page_max"},
        {"compression", "block_compressor"},
    };
    WT_CURSOR *metadata;
    WT_CONFIG_PARSER *parser;
    const char *configuration;
    int code = session->open_cursor(session, "metadata:create", NULL, NULL, &metadata);
    if (code != 0)
        return code;
    metadata->set_key(metadata, TABLE);
    code = metadata->search(metadata);
    if (code == 0)
        code = metadata->get_value(metadata, &configuration);
    if (code == 0)
        code = wiredtiger_config_parser_open(NULL, configuration, strlen(configuration), &parser);
    if (code == 0) {
        for (size_t i = 0; i < sizeof lines / sizeof *lines && code == 0; i++)
            code = add_setting(parser, lines[i].label, lines[i].name, text, capacity);
        parser->close(parser);
    }
    int closed = metadata->close(metadata);
    return code == 0 ? closed : code;
}
