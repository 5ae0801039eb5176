/* A small store with one planted bug, which the crash explorer must find. BUG names the bug; without
 * it, no write that was synced is lost when power fails.
 *
 * All records are in memory. A generation N is three files: `index.N` and `values.N`, a sorted copy
 * of all records, and `log.N`, the writes since then. A log is filled with zeros when it is made, so
 * that the sync of a write concerns no metadata. A write that does not fit begins a generation, which
 * counts once `index.N` has its name. Opening after a crash begins one, too: nothing is ever written
 * behind a torn record. */
#include "memory.h"

enum bug {
    none,
    flush_left_out,       /* no write is synced */
    tenth_flush_left_out, /* every tenth write is not synced */
    wrong_descriptor,     /* a write syncs the file of the values instead of the log */
    checksum_not_checked, /* recovery takes a torn record as it is */
    torn_header, /* recovery trusts a number that lies across two sectors for the log's end */
    rename_before_sync,  /* the index is synced after it got its name */
    values_after_index,  /* the values are synced after the index that refers to them */
    folder_not_synced,   /* the name of the index is not synced before writes rely on it */
    log_deleted_first,   /* the old log is deleted before the new index is in place */
    recovery_not_synced, /* files that recovery makes are not synced before the old ones go */
};
#ifndef BUG
#define BUG none
#endif
static const enum bug bug = BUG;

enum {
    LOG_SIZE = 96 << 10, /* bytes, unless one record needs more */
    LOG_START = 1024,    /* where records begin */
    LOG_END_AT = 511,    /* where torn_header keeps the end of the log's records */
};

struct kv {
    int folder, log, values;
    bool sync, recovering;
    unsigned generation, writes;
    uint64_t end, size; /* of the records in the log, of its file */
    struct memory memory;
};

static const struct kv_setting settings[] = {
    {"durability", "process", .means = "the log is not synced, only new generations are"},
    {"durability", "sync", .means = "fdatasync of the log after each write"},
    {"durability", "*", .lacks = "it writes its log at once"},
    {"memory", "*", .lacks = "no cache: all records are in memory"},
    {"compression", "*", .lacks = "records are kept as they are"},
    {NULL},
};

static const char *version(void)
{
    return "1";
}

/* The files of a new generation: its values and its log, both open, and its index. */
static int make_files(struct kv *kv, unsigned next, struct bytes index, struct bytes values,
                      struct bytes zeros, int files[3])
{
    bool sync = !(kv->recovering && bug == recovery_not_synced);
    char name[32], old[32];
    name_of(name, "values", next);
    int status = make_file(kv->folder, name, values, sync && bug != values_after_index, &files[0]);
    name_of(old, "log", kv->generation);
    if (status == KV_OK && bug == log_deleted_first)
        unlinkat(kv->folder, old, 0);
    name_of(name, "log", next);
    if (status == KV_OK)
        status = make_file(kv->folder, name, zeros, sync, &files[1]);
    if (status == KV_OK)
        status =
            make_file(kv->folder, "index.new", index, sync && bug != rename_before_sync, &files[2]);
    if (status == KV_OK && fsync(kv->folder) != 0)
        status = failed("fsync folder");
    name_of(name, "index", next);
    if (status == KV_OK && renameat(kv->folder, "index.new", kv->folder, name) != 0)
        status = failed(name);
    if (status == KV_OK && bug != folder_not_synced && fsync(kv->folder) != 0)
        status = failed("fsync folder");
    if (status == KV_OK && bug == values_after_index && fdatasync(files[0]) != 0)
        status = failed("fdatasync values");
    if (status == KV_OK && bug == rename_before_sync && fdatasync(files[2]) != 0)
        status = failed("fdatasync index");
    return status;
}

/* Begins a generation whose log has room for a record of `room` bytes. */
static int begin_generation(struct kv *kv, size_t room)
{
    struct bytes index = {0}, values = {0};
    struct bytes zeros = {.size = LOG_START + room > LOG_SIZE ? LOG_START + room : LOG_SIZE};
    int files[3] = {-1, -1, -1}, status = copy_records(&kv->memory, &index, &values);
    if (status == KV_OK && (zeros.data = calloc(1, zeros.size)) == NULL)
        status = kv_fail("out of memory");
    if (status == KV_OK)
        status = make_files(kv, kv->generation + 1, index, values, zeros, files);
    if (status == KV_OK) {
        int old[] = {kv->values, kv->log};
        kv->values = files[0], kv->log = files[1];
        kv->end = LOG_START, kv->size = zeros.size;
        files[0] = old[0], files[1] = old[1];
        delete_generation(kv->folder, kv->generation++);
    }
    for (int i = 0; i < 3; i++)
        if (files[i] >= 0)
            close(files[i]);
    free(index.data), free(values.data), free(zeros.data);
    return status;
}

/* The records of the index and the values. A file that is not whole is an error. */
static int load(struct kv *kv)
{
    struct bytes index = {0}, values = {0};
    int file = -1, status = read_file(kv->folder, "index", kv->generation, &index, &file);
    if (status == KV_OK)
        status = read_file(kv->folder, "values", kv->generation, &values, &kv->values);
    if (status == KV_OK)
        status = keep_copied(&kv->memory, index, values);
    if (file >= 0)
        close(file);
    free(index.data), free(values.data);
    return status;
}

/* Repeats the writes of the log up to the first that is torn. Sets *used unless it is all zeros. */
static int replay(struct kv *kv, bool *used)
{
    struct bytes log = {0};
    int status = read_file(kv->folder, "log", kv->generation, &log, &kv->log);
    uint64_t end = log.size;
    *used = false;
    for (size_t i = LOG_START; status == KV_OK && i < log.size; i++)
        *used = *used || log.data[i] != 0;
    if (status == KV_OK && bug == torn_header) {
        memcpy(&end, log.data + LOG_END_AT, sizeof end);
        end = end == 0 ? LOG_START : end;
        if (end > log.size)
            status = kv_fail("log.%u ends at %llu", kv->generation, (unsigned long long)end);
    }
    for (kv->end = LOG_START; status == KV_OK && kv->end + sizeof(struct head) <= end;) {
        struct head head;
        const char *key = log.data + kv->end + sizeof head;
        memcpy(&head, log.data + kv->end, sizeof head);
        uint64_t size = sizeof head + (uint64_t)head.key_size;
        const char *value = key + head.key_size;
        size += head.value_size == REMOVED ? 0 : head.value_size;
        if (head.key_size == 0 || size > end - kv->end)
            break;
        if (bug != checksum_not_checked && head.sum != summed(0, head, key, value))
            break;
        status = keep(&kv->memory, (struct kv_slice){key, head.key_size},
                      (struct kv_slice){value, head.value_size}, head.value_size == REMOVED);
        kv->end += size;
    }
    if (status == KV_OK && bug == torn_header && kv->end != end)
        status = kv_fail("log.%u is damaged", kv->generation);
    kv->size = log.size;
    free(log.data);
    return status;
}

static int release(struct kv *kv, int status)
{
    int files[] = {kv->log, kv->values, kv->folder};
    for (int i = 0; i < 3; i++)
        if (files[i] >= 0 && close(files[i]) != 0 && status == KV_OK)
            status = failed("close");
    forget_all(&kv->memory);
    free(kv);
    return status;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    struct kv *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return kv_fail("out of memory");
    opened->sync = !kv_is(options, count, "durability", "process");
    opened->log = opened->values = -1;
    opened->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = opened->folder < 0 ? failed(path) : newest(opened->folder, &opened->generation);
    bool used = opened->generation == 0;
    if (status == KV_OK && opened->generation > 0) {
        opened->recovering = true;
        status = load(opened);
        if (status == KV_OK)
            status = replay(opened, &used);
        if (status == KV_OK)
            delete_generation(opened->folder, opened->generation - 1);
    }
    if (status == KV_OK && used)
        status = begin_generation(opened, 0);
    opened->recovering = false;
    if (status != KV_OK)
        return release(opened, status);
    *kv = opened;
    return KV_OK;
}

static int close_store(struct kv *kv)
{
    return release(kv, kv->end > LOG_START ? begin_generation(kv, 0) : KV_OK);
}

static int sync_log(struct kv *kv)
{
    return fdatasync(kv->log) == 0 ? KV_OK : failed("fdatasync log");
}

/* What follows a write before it returns. */
static int end_write(struct kv *kv)
{
    bool sync = kv->sync && bug != flush_left_out;
    if (bug == tenth_flush_left_out && ++kv->writes % 10 == 0)
        sync = false;
    if (sync && fdatasync(bug == wrong_descriptor ? kv->values : kv->log) != 0)
        return failed("fdatasync");
    if (bug != torn_header)
        return KV_OK;
    int status = write_at(kv->log, &kv->end, sizeof kv->end, LOG_END_AT);
    return status == KV_OK && sync ? sync_log(kv) : status;
}

/* Appends a write to the log. */
static int append(struct kv *kv, struct kv_slice key, struct kv_slice value, bool removed)
{
    struct head head = {0, (uint32_t)key.size, removed ? REMOVED : (uint32_t)value.size};
    size_t size = sizeof head + key.size + (removed ? 0 : value.size);
    head.sum = summed(0, head, key.data, value.data);
    int status = size > kv->size - kv->end ? begin_generation(kv, size) : KV_OK;
    char *bytes = status == KV_OK ? malloc(size) : NULL;
    if (bytes == NULL)
        return status == KV_OK ? kv_fail("out of memory") : status;
    char *rest = mempcpy(mempcpy(bytes, &head, sizeof head), key.data, key.size);
    memcpy(rest, value.data, removed ? 0 : value.size);
    status = write_at(kv->log, bytes, size, kv->end);
    free(bytes);
    kv->end += status == KV_OK ? size : 0;
    return status;
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    int status = KV_OK;
    for (size_t i = 0; i < count && status == KV_OK; i++) {
        size_t place;
        bool found = find(&kv->memory, records[i].key, &place), removed = mode == KV_REMOVE;
        if (found ? mode == KV_INSERT : mode == KV_UPDATE || removed)
            return found ? KV_EXISTS : KV_NOT_FOUND;
        status = append(kv, records[i].key, records[i].value, removed);
        if (status == KV_OK)
            status = keep(&kv->memory, records[i].key, records[i].value, removed);
    }
    return status == KV_OK ? end_write(kv) : status;
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    size_t place;
    bool found = find(&kv->memory, key, &place);
    return found ? kv_copy(kv->memory.records[place].value, buffer, capacity, size) : KV_NOT_FOUND;
}

static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit visit,
                void *context)
{
    visit_all(&kv->memory, from, direction, visit, context);
    return KV_OK;
}

static int effective_options(struct kv *kv, char *text, size_t capacity)
{
    snprintf(text, capacity, "sync=%s\n", kv->sync ? "each write" : "off");
    return KV_OK;
}

KV_EXPORT const struct kv_driver kv_driver = {
    .abi = KV_ABI,
    .capabilities = KV_SCAN,
    .name = KV_NAME,
    .max_key = 1 << 20,
    .max_value = 1 << 26,
    .settings = settings,
    .default_durability = "sync",
    .version = version,
    .error = kv_error,
    .open = open_store,
    .close = close_store,
    .get = get,
    .write = write_records,
    .scan = scan,
    .sync = sync_log,
    .effective_options = effective_options,
};
