/* A store with one injected fault, to test that the harness detects it. It passes all other
 * calls on to the store in the shared object KVBENCH_HONEST. Its own file name chooses the fault:
 *
 *   liar-LIE-TURN.so               answers call TURN, of those where LIE applies, incorrectly
 *   liar-WAY-at-FUNCTION-TURN.so   breaks in call number TURN of FUNCTION, see broken()
 *   liar-honest-0.so               has no fault
 *
 * When it injects the fault, it creates a file of its name in the folder KVBENCH_TOLD. */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILLER = 64 << 20, /* bytes; more than the records of any cell */
    TAG = 4,           /* RECORDS_TAG of records.h */
    OLD = 4096,        /* older values that are kept */
    OLD_BYTES = 2048,  /* of a value that is kept */
};

struct kv_driver kv_driver;
static struct kv_driver honest;
static char folder[4096];                /* of the store */
static char name[128], lie[128], at[32]; /* file, fault, function */
static unsigned long turn;
static atomic_ulong calls;
static _Thread_local unsigned char other[64]; /* a key read or written before */
static _Thread_local size_t other_size;
static unsigned char stale[64]; /* the key of a record whose update was dropped */
static size_t stale_size;
static struct {
    unsigned char key[64], value[OLD_BYTES];
    size_t key_size, size;
} old[OLD]; /* what updates have replaced */

/* The path of the file that reports the fault. */
static void mark(char path[4096])
{
    const char *folder = getenv("KVBENCH_TOLD");
    snprintf(path, 4096, "%s/%s", folder == NULL ? "" : folder, name);
}

static void told(void)
{
    char path[4096];
    mark(path);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || close(file) != 0)
        _exit(99); /* an unreported fault would count as a missed one */
}

/* The fault had no effect that the harness could see, so it is due again in the next call. */
static void not_told(void)
{
    char path[4096];
    mark(path);
    if (unlink(path) != 0)
        _exit(99);
    turn = atomic_load(&calls) + 1;
}

static bool is(const char *name)
{
    return strcmp(lie, name) == 0;
}

/* Whether the fault is due. Each call to which it applies asks once. */
static bool now_is_the_time(void)
{
    if (atomic_fetch_add(&calls, 1) + 1 != turn)
        return false;
    told();
    return true;
}

static struct kv_slice another(void)
{
    return (struct kv_slice){other, other_size};
}

static void remember(struct kv_slice key)
{
    if (key.size > sizeof other)
        return;
    memcpy(other, key.data, key.size);
    other_size = key.size;
}

/* The place of a key in `old`: the last bytes of the harness's keys are well mixed. */
static size_t place_of(struct kv_slice key)
{
    unsigned short mixed = 0;
    if (key.size >= sizeof mixed)
        memcpy(&mixed, (const char *)key.data + key.size - sizeof mixed, sizeof mixed);
    return mixed % OLD;
}

/* Keeps the value that an update will replace. */
static void keep_old(struct kv *kv, struct kv_slice key)
{
    size_t at = place_of(key), size;
    if (key.size > sizeof old[at].key ||
        honest.get(kv, key, old[at].value, OLD_BYTES, &size) != KV_OK)
        return;
    memcpy(old[at].key, key.data, key.size);
    old[at].key_size = key.size;
    old[at].size = size;
}

/* The value that an update replaced; of size 0 where it is not known. */
static struct kv_slice old_value(struct kv_slice key)
{
    size_t at = place_of(key);
    bool known = kv_same(key, (struct kv_slice){old[at].key, old[at].key_size});
    return (struct kv_slice){old[at].value, known ? old[at].size : 0};
}

__attribute__((noinline)) static int deep(volatile int *above)
{
    volatile int here[1024];
    if (*above < 0)
        return 0;
    here[0] = *above + 1;
    return deep(here) + here[0];
}

static void write_everywhere(const char *text)
{
    for (int file = 3; file < 64; file++)
        if (write(file, text, strlen(text)) < 0)
            continue; /* the file is not open for writing */
}

static const struct {
    const char *way;
    int signal;
} signals[] = {{"segmentation-fault", SIGSEGV},
               {"abort", SIGABRT},
               {"killed", SIGKILL},
               {"stopped", SIGSTOP},
               {"real-time-signal", 40}};

/* The answer that is forged before the worker exits. */
static const struct {
    const char *way, *text;
} answers[] = {
    {"exit-0", ""},
    {"garbage", "\x80garbage{"},
    {"a-number", "42"},
    {"forged", "{\"status\": \"ok\", \"reason\": \"\"}"},
    {"forged-text", "{\"status\": \"failed\", \"reason\": \"\\ud800\", \"cell\": 5}"},
    {"forged-number",
     "{\"status\": \"ok\", \"reason\": \"\", \"effective_options\": {}, \"eviction\": \"\", "
     "\"compressed_share\": 1, \"snappy_share\": 1, \"cached_share\": 1, \"cached_end\": 1, "
     "\"live_records\": 1, \"live_bytes\": 1, \"disk_bytes\": -5, \"settled\": \"yes\", "
     "\"debt_s\": 1, \"debt_cpu_s\": 1, \"debt_bytes\": 1, \"ended_disk_bytes\": 1, "
     "\"debt_disk_bytes\": 1, \"floor_ns\": NaN, \"open_s\": 1, \"load_s\": 1, "
     "\"rounds_s\": 1, \"check_s\": 1, \"close_s\": 1, \"reopen_s\": 1, \"timeline\": [], "
     "\"operations\": [{}]}"},
};

/* Crashes, hangs, ends the worker or forges its answer. If it returns, the status is undefined, or
 * it is KV_ERROR and error() gives no text or none that is UTF-8. */
static int broken(void)
{
    volatile int zero = 0;
    told();
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (is(signals[i].way))
            raise(signals[i].signal);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (is(answers[i].way)) {
            write_everywhere(answers[i].text);
            _exit(0);
        }
    if (is("illegal-instruction"))
        __builtin_trap();
    else if (is("stack-overflow"))
        return deep(&zero);
    else if (is("exit-1"))
        _exit(1);
    else if (is("nested")) { /* deeper than JSON parsers go */
        static char text[100001];
        memset(text, '[', sizeof text - 1);
        write_everywhere(text);
        _exit(0);
    } else if (is("child") || is("daemon")) { /* it keeps the parent's files open */
        if (fork() == 0) {
            if (is("daemon") && setsid() < 0)
                _exit(99);
            for (;;)
                pause();
        }
        _exit(0);
    }
    while (is("hang"))
        pause();
    while (is("spin"))
        if (zero != 0)
            break;
    return is("status-77") ? 77 : is("status--1") ? -1 : KV_ERROR;
}

static bool breaks(const char *function)
{
    return strcmp(at, function) == 0 && atomic_fetch_add(&calls, 1) + 1 == turn;
}

static const char *error(void)
{
    if (is("no-reason"))
        return NULL;
    return is("no-text") ? "\xff\xfe\x80" : honest.error();
}

/* Where "kept-elsewhere" has its records: in a folder of its own; and "kept-in-process": in one of
 * the process. */
static const char *elsewhere(const char *path)
{
    static char place[4200];
    if (!is("kept-elsewhere") && !is("kept-in-process"))
        return path;
    if (place[0] == '\0') {
        char file[4096];
        mark(file);
        snprintf(place, sizeof place, "%s-%d", file, is("kept-in-process") ? getpid() : 0);
    }
    if (mkdir(place, 0777) != 0 && errno != EEXIST)
        _exit(99);
    told();
    return place;
}

static int open_store(const char *path, const struct kv_option *options, size_t count,
                      struct kv **kv)
{
    if (breaks("open"))
        return broken();
    snprintf(folder, sizeof folder, "%s", path);
    return honest.open(elsewhere(path), options, count, kv);
}

static int honestly(struct kv *kv, enum kv_mode mode, struct kv_slice key, struct kv_slice value)
{
    const struct kv_record record = {key, value};
    return honest.write(kv, mode, &record, 1);
}

/* Makes the store's folder as large as if the records were there. */
static void fill(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/filler", folder);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || posix_fallocate(file, 0, FILLER) != 0 || close(file) != 0)
        _exit(99);
}

static int close_store(struct kv *kv)
{
    if (breaks("close"))
        return broken();
    if (is("loses-one-on-closing") && other_size > 0) {
        told();
        honestly(kv, KV_REMOVE, another(), another());
    }
    if (is("kept-in-process"))
        fill();
    return honest.close(kv);
}

static int get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    static _Thread_local unsigned char aside[1 << 21];
    if (breaks("get"))
        return broken();
    if (is("another-record") && other_size > 0 && !kv_same(key, another()) && now_is_the_time())
        return honest.get(kv, another(), buffer, capacity, size);
    if (is("not-copied") && capacity <= sizeof aside && now_is_the_time())
        return honest.get(kv, key, aside, sizeof aside, size);
    int status = honest.get(kv, key, buffer, capacity, size);
    if (status == KV_NOT_FOUND && is("found") && now_is_the_time()) {
        *size = 0;
        return KV_OK;
    }
    if (status != KV_OK)
        return status;
    remember(key);
    struct kv_slice older = old_value(key);
    if (is("truncated") && *size > 0 && now_is_the_time())
        --*size;
    else if (is("altered") && *size > 0 && now_is_the_time())
        ((unsigned char *)buffer)[*size / 2] ^= 1;
    else if (is("right-tag") && *size > TAG && now_is_the_time())
        memset(buffer, 'x', *size - TAG);
    else if (is("wrong-tag") && *size > TAG && now_is_the_time())
        ((unsigned char *)buffer)[*size - TAG] ^= 128;
    else if (is("older-version") && older.size > 0 && now_is_the_time())
        return kv_copy(older, buffer, capacity, size);
    else if (is("torn") && older.size > 0 && now_is_the_time())
        memcpy(buffer, older.data, (older.size < *size ? older.size : *size) / 2);
    else if (is("too-long") && now_is_the_time())
        *size = capacity + 1000;
    else if (is("missing") && now_is_the_time())
        return KV_NOT_FOUND;
    return KV_OK;
}

static int insert(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (is("lost-insert") && now_is_the_time())
        return KV_OK;
    int status = honestly(kv, KV_INSERT, key, value);
    if (status == KV_OK)
        remember(key);
    if (status != KV_EXISTS)
        return status;
    if (is("insert-accepted") && now_is_the_time())
        return KV_OK;
    if (is("insert-accepted-each-2000") && now_is_the_time()) {
        turn += 2000;
        return KV_OK;
    }
    if (is("insert-overwrites") && now_is_the_time())
        return honestly(kv, KV_UPDATE, key, value);
    if (is("insert-overwrites-and-denies-it") && now_is_the_time())
        honestly(kv, KV_UPDATE, key, value);
    return status;
}

static int update(struct kv *kv, struct kv_slice key, struct kv_slice value)
{
    if (is("stale") && key.size <= sizeof stale &&
        (kv_same(key, (struct kv_slice){stale, stale_size}) || now_is_the_time())) {
        memcpy(stale, key.data, key.size);
        stale_size = key.size;
        return KV_OK;
    }
    if (is("older-version") || is("torn"))
        keep_old(kv, key);
    int status = honestly(kv, KV_UPDATE, key, value);
    if (status == KV_NOT_FOUND && is("update-inserts") && now_is_the_time())
        return honestly(kv, KV_INSERT, key, value);
    if (status == KV_NOT_FOUND && is("update-accepted") && now_is_the_time())
        return KV_OK;
    return status;
}

static int remove_record(struct kv *kv, struct kv_slice key)
{
    if (is("kept") && now_is_the_time())
        return KV_OK;
    int status = honestly(kv, KV_REMOVE, key, key);
    if (status == KV_NOT_FOUND && is("remove-accepted") && now_is_the_time())
        return KV_OK;
    if (is("removes-another") && other_size > 0 && !kv_same(key, another()) && now_is_the_time() &&
        honestly(kv, KV_REMOVE, another(), another()) != KV_OK)
        not_told();
    if (stale_size > 0 && kv_same(key, (struct kv_slice){stale, stale_size})) {
        stale_size = 0;
        not_told();
    }
    return status;
}

/* "lost" counts records, not calls: it drops record number TURN of all that are loaded. */
static int put(struct kv *kv, const struct kv_record *records, size_t count)
{
    size_t lost = count;
    for (size_t i = 0; is("lost") && i < count; i++)
        if (now_is_the_time())
            lost = i;
    if (is("batch-cut-off") && count > 1 && now_is_the_time())
        lost = --count;
    int status = lost == 0 ? KV_OK : honest.write(kv, KV_PUT, records, lost);
    if (status == KV_OK && lost + 1 < count)
        status = honest.write(kv, KV_PUT, records + lost + 1, count - lost - 1);
    return status;
}

static int write_records(struct kv *kv, enum kv_mode mode, const struct kv_record *records,
                         size_t count)
{
    static const char *const function[] = {"write_batch", "insert", "update", "remove"};
    if (breaks(function[mode]))
        return broken();
    switch (mode) {
    case KV_INSERT:
        return insert(kv, records->key, records->value);
    case KV_UPDATE:
        return update(kv, records->key, records->value);
    case KV_REMOVE:
        return remove_record(kv, records->key);
    case KV_PUT:
        break;
    }
    return put(kv, records, count);
}

struct visit {
    kv_visit visit;
    void *context;
    bool ended;
};

static int visit(void *context, struct kv_slice key, struct kv_slice value)
{
    struct visit *to = context;
    static _Thread_local unsigned char copy[1 << 21];
    if (to->ended) { /* goes on after the visitor has stopped it */
        to->visit(to->context, key, value);
        return 0;
    }
    if (is("scan-skips") && now_is_the_time())
        return 0;
    if (is("scan-repeats") && now_is_the_time() && to->visit(to->context, key, value) != 0)
        return 1;
    if (is("scan-alters") && value.size > 0 && value.size <= sizeof copy && now_is_the_time()) {
        memcpy(copy, value.data, value.size);
        copy[value.size - 1] ^= 1;
        value.data = copy;
    }
    if (is("scan-ends") && now_is_the_time())
        return 1;
    to->ended = to->visit(to->context, key, value) != 0;
    return to->ended && !is("scan-alters");
}

/* Adds a record before the first or after the last one. Backward scans have no fault. */
static int scan(struct kv *kv, struct kv_slice from, enum kv_direction direction, kv_visit to,
                void *context)
{
    if (direction == KV_BACKWARD)
        return honest.scan(kv, from, direction, to, context);
    struct visit through = {to, context, false};
    const struct kv_slice first = {"", 1}, last = {"\xff\xff", 2};
    if (breaks("scan"))
        return broken();
    if (is("scan-adds-first") && from.size == 0 && now_is_the_time() &&
        to(context, first, last) != 0)
        return KV_OK;
    int status = honest.scan(kv, from, direction, visit, &through);
    if (is("scan-adds-last") && status == KV_OK && !through.ended && now_is_the_time())
        to(context, last, last);
    return status;
}

/* Reads the fault from the file's name: of "liar-abort-at-get-7" it is "abort". */
static void read_name(void)
{
    Dl_info own;
    if (dladdr(&kv_driver, &own) == 0)
        return;
    const char *file = strrchr(own.dli_fname, '/');
    file = file == NULL ? own.dli_fname : file + 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(file, "."), file);
    snprintf(lie, sizeof lie, "%s", strncmp(name, "liar-", 5) == 0 ? name + 5 : "");
    char *number = strrchr(lie, '-');
    if (number != NULL) {
        turn = strtoul(number + 1, NULL, 10);
        *number = '\0';
    }
    char *place = strstr(lie, "-at-");
    if (place != NULL) {
        snprintf(at, sizeof at, "%s", place + 4);
        *place = '\0';
    }
}

__attribute__((constructor)) static void disguise(void)
{
    const char *path = getenv("KVBENCH_HONEST");
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct kv_driver *driver = library == NULL ? NULL : dlsym(library, "kv_driver");
    if (driver == NULL)
        return; /* the ABI stays 0, so the store is unavailable */
    read_name();
    honest = kv_driver = *driver;
    if (is("forgets")) { /* so that the harness checks no answer */
        kv_driver.capabilities |= KV_FORGETS;
        told();
    }
    kv_driver.name = name;
    kv_driver.error = error;
    kv_driver.open = open_store;
    kv_driver.close = close_store;
    kv_driver.get = get;
    kv_driver.write = write_records;
    if (honest.scan != NULL)
        kv_driver.scan = scan;
}
