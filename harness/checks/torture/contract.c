/* Fuzzes a store against its contract, kv.h: the input is a sequence of operations, whose answers
 * have to be those of a model, a sorted array in memory. One that differs ends the process.
 *
 * KVBENCH_FUZZ_SHIM is the shim's path; KVBENCH_FUZZ_OPTIONS its settings, if any, as
 * name=value,name=value; KVBENCH_FUZZ_PLACE where folders of stores go, else TMPDIR or /dev/shm. */
#include "../../shims/bench.h"

#include <ftw.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);

enum {
    LONGEST_KEY = 3000, /* that is tried, where a store allows more */
    LARGEST_VALUE = 20000,
    MOST_RECORDS = 512,
    MOST_BATCH = 8,
    MOST_OPTIONS = 4,
};

struct entry {
    unsigned char *key, *value;
    size_t key_size, value_size;
};

/* A store, what it must hold, and what is left of the input. */
struct game {
    struct kv *kv;
    char folder[4096];
    struct entry entries[MOST_RECORDS]; /* in the order of their keys */
    size_t count;
    const uint8_t *input;
    size_t left;
};

static const struct kv_driver *driver;
static struct kv_option options[MOST_OPTIONS];
static size_t option_count;
static bool checked; /* not for a store that keeps nothing */

static void fail(const char *what, const char *expected, const char *found)
{
    fprintf(stderr, "contract of %s: %s: expected %s, found %s\n", driver->name, what, expected,
            found);
    abort();
}

static const char *status_name(int status)
{
    static const char *const names[] = {"KV_OK", "KV_NOT_FOUND", "KV_EXISTS", "KV_TOO_LARGE",
                                        "KV_ERROR"};
    return status >= KV_OK && status <= KV_ERROR ? names[status] : "an undefined status";
}

static void expect_status(const char *what, int expected, int found)
{
    char text[600];
    if (!checked || expected == found)
        return;
    snprintf(text, sizeof text, "%s%s%s", status_name(found), found == KV_ERROR ? ": " : "",
             found == KV_ERROR ? driver->error() : "");
    fail(what, status_name(expected), text);
}

static void expect_number(const char *what, size_t expected, size_t found)
{
    char texts[2][32];
    if (!checked || expected == found)
        return;
    snprintf(texts[0], sizeof texts[0], "%zu", expected);
    snprintf(texts[1], sizeof texts[1], "%zu", found);
    fail(what, texts[0], texts[1]);
}

static void expect_bytes(const char *what, struct kv_slice expected, struct kv_slice found)
{
    expect_number(what, expected.size, found.size);
    if (checked && !kv_same(expected, found))
        fail(what, "other bytes", "these");
}

static void *allocate(size_t size)
{
    void *bytes = malloc(size);
    if (bytes == NULL)
        abort();
    return bytes;
}

/* A copy in a block of exactly its size: whoever reads beyond it is found out. */
static unsigned char *copy(struct kv_slice slice)
{
    unsigned char *bytes = allocate(slice.size);
    memcpy(bytes, slice.data, slice.size);
    return bytes;
}

/* The model */

static struct kv_slice key_of(const struct entry *entry)
{
    return (struct kv_slice){entry->key, entry->key_size};
}

static struct kv_slice value_of(const struct entry *entry)
{
    return (struct kv_slice){entry->value, entry->value_size};
}

static int compare(struct kv_slice a, struct kv_slice b)
{
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* The place of the first key that is not less. */
static size_t find(const struct game *game, struct kv_slice key, bool *found)
{
    size_t place = 0;
    while (place < game->count && compare(key_of(&game->entries[place]), key) < 0)
        place++;
    *found = place < game->count && kv_same(key_of(&game->entries[place]), key);
    return place;
}

static void put(struct game *game, struct kv_slice key, struct kv_slice value)
{
    bool found;
    struct entry *entry = &game->entries[find(game, key, &found)];
    if (found) {
        free(entry->value);
    } else {
        size_t after = game->count - (size_t)(entry - game->entries);
        memmove(entry + 1, entry, after * sizeof *entry);
        game->count++;
        entry->key = copy(key);
        entry->key_size = key.size;
    }
    entry->value = copy(value);
    entry->value_size = value.size;
}

static void take_out(struct game *game, size_t place)
{
    struct entry *entry = &game->entries[place];
    free(entry->key);
    free(entry->value);
    game->count--;
    memmove(entry, entry + 1, (game->count - place) * sizeof *entry);
}

/* The input */

static unsigned next(struct game *game)
{
    if (game->left == 0)
        return 0;
    game->left--;
    return *game->input++;
}

static size_t next_number(struct game *game)
{
    size_t high = next(game);
    return high << 8 | next(game);
}

/* Bytes of any length from three of the input, and the block that holds them. */
static unsigned char *fill(struct game *game, size_t size)
{
    unsigned char *bytes = allocate(size);
    unsigned first = next(game), step = next(game), last = next(game);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(first + i * step);
    if (size > 0)
        bytes[size - 1] = (unsigned char)last;
    return bytes;
}

/* A key or a value of the input, in a block of its own. Of one beyond the limits only the size is:
 * it has to be refused before it is read. */
struct operand {
    unsigned char *bytes;
    struct kv_slice slice;
    bool refused;
};

static struct operand next_key(struct game *game)
{
    unsigned kind = next(game);
    size_t longest = driver->max_key < LONGEST_KEY ? driver->max_key : LONGEST_KEY;
    size_t size = 1 + (kind >> 4) % 3;
    if (kind % 8 < 4 && game->count > 0) { /* one that is there */
        const struct entry *entry = &game->entries[next(game) % game->count];
        unsigned char *bytes = copy(key_of(entry));
        return (struct operand){bytes, {bytes, entry->key_size}, false};
    }
    if (kind % 8 == 6)
        size = 1 + next_number(game) % longest;
    if (kind % 16 == 7)
        size = longest;
    unsigned char *bytes = fill(game, size);
    struct operand key = {bytes, {bytes, size}, false};
    if (kind % 16 == 15) {
        key.slice.size = kind >> 4 == 0 ? 0 : driver->max_key + 1;
        key.refused = true;
    }
    return key;
}

static struct operand next_value(struct game *game)
{
    unsigned kind = next(game);
    size_t size = kind / 8;
    if (kind % 8 == 6)
        size = next_number(game) % LARGEST_VALUE;
    unsigned char *bytes = fill(game, size);
    struct operand value = {bytes, {bytes, size}, false};
    if (kind == 255) {
        value.slice.size = driver->max_value + 1;
        value.refused = true;
    }
    return value;
}

/* The operations */

static void write_one(struct game *game, bool insert)
{
    struct operand key = next_key(game), value = next_value(game);
    bool found = false;
    if (!key.refused)
        find(game, key.slice, &found);
    int expected = insert ? found ? KV_EXISTS : KV_OK : found ? KV_OK : KV_NOT_FOUND;
    if (key.refused || value.refused)
        expected = KV_TOO_LARGE;
    if (expected != KV_OK || found || game->count < MOST_RECORDS) {
        int status = insert ? driver->insert(game->kv, key.slice, value.slice)
                            : driver->update(game->kv, key.slice, value.slice);
        expect_status(insert ? "insert" : "update", expected, status);
        if (expected == KV_OK)
            put(game, key.slice, value.slice);
    }
    free(key.bytes);
    free(value.bytes);
}

/* Gets a value into a buffer of exactly that many bytes. */
static void get_into(struct game *game, struct kv *session, struct operand key, size_t capacity)
{
    bool found = false;
    size_t size = SIZE_MAX, place = key.refused ? 0 : find(game, key.slice, &found);
    unsigned char *buffer = allocate(capacity);
    int status = driver->get(session, key.slice, buffer, capacity, &size);
    if (!found) {
        expect_status("get", key.refused ? KV_TOO_LARGE : KV_NOT_FOUND, status);
    } else {
        struct kv_slice value = value_of(&game->entries[place]);
        expect_status("get", value.size > capacity ? KV_TOO_LARGE : KV_OK, status);
        expect_number("size that get tells", value.size, size);
        if (checked && status == KV_OK)
            expect_bytes("value that get copies", value, (struct kv_slice){buffer, size});
    }
    free(buffer);
}

static void get(struct game *game)
{
    struct operand key = next_key(game);
    unsigned kind = next(game);
    bool found = false;
    size_t place = key.refused ? 0 : find(game, key.slice, &found);
    size_t size = found ? game->entries[place].value_size : 0;
    const size_t capacities[] = {size, size + 1, size > 0 ? size - 1 : 0, 0, 2 * size, kind};
    struct kv *session = game->kv;
    bool own = driver->begin != NULL && kind >= 128;
    if (own)
        expect_status("begin", KV_OK, driver->begin(game->kv, &session));
    get_into(game, session, key, capacities[kind % 6]);
    if (own)
        expect_status("end", KV_OK, driver->end(session));
    free(key.bytes);
}

static void remove_one(struct game *game)
{
    struct operand key = next_key(game);
    bool found = false;
    size_t place = key.refused ? 0 : find(game, key.slice, &found);
    int expected = key.refused ? KV_TOO_LARGE : found ? KV_OK : KV_NOT_FOUND;
    expect_status("remove", expected, driver->remove(game->kv, key.slice));
    if (expected == KV_OK)
        take_out(game, place);
    free(key.bytes);
}

/* Whether the batch has the key already, which the contract forbids. */
static bool listed(const struct kv_record *records, size_t count, struct operand key)
{
    for (size_t i = 0; i < count && !key.refused; i++)
        if (records[i].key.size == key.slice.size && kv_same(records[i].key, key.slice))
            return true;
    return false;
}

static void write_batch(struct game *game)
{
    struct operand operands[2 * MOST_BATCH];
    struct kv_record records[MOST_BATCH];
    size_t count = 0, wanted = next(game) % (MOST_BATCH + 1);
    bool refused = false;
    if (game->count + wanted > MOST_RECORDS)
        return;
    for (size_t i = 0; i < wanted; i++) {
        struct operand key = next_key(game), value = next_value(game);
        operands[2 * i] = key;
        operands[2 * i + 1] = value;
        if (listed(records, count, key))
            continue;
        records[count++] = (struct kv_record){key.slice, value.slice};
        refused = refused || key.refused || value.refused;
    }
    expect_status("write_batch", refused ? KV_TOO_LARGE : KV_OK,
                  driver->write_batch(game->kv, records, count));
    for (size_t i = 0; i < count && !refused; i++)
        put(game, records[i].key, records[i].value);
    for (size_t i = 0; i < 2 * wanted; i++)
        free(operands[i].bytes);
}

/* A scan: which record must come next, and how many more until the visitor ends it. */
struct walk {
    const struct game *game;
    bool back;
    size_t next; /* going back, one more than the place */
    size_t left;
    int end; /* what the visitor answers then */
};

static int visit(void *context, struct kv_slice key, struct kv_slice value)
{
    struct walk *walk = context;
    if (walk->left == 0)
        fail("visits of a scan", "none after the visitor ended it", "one more");
    if (walk->next == (walk->back ? 0 : walk->game->count))
        fail("records of a scan", "no more", "one more");
    const struct entry *entry = &walk->game->entries[walk->back ? --walk->next : walk->next++];
    expect_bytes("key of a scan", key_of(entry), key);
    expect_bytes("value of a scan", value_of(entry), value);
    return --walk->left == 0 ? walk->end : 0;
}

static void scan(struct game *game, bool back)
{
    static const int ends[] = {1, -1, 256, 7};
    struct operand from = next_key(game);
    unsigned kind = next(game);
    if (driver->scan != NULL) {
        bool found = false;
        if (from.refused)
            from.slice.size = 0; /* from before the first record */
        size_t place = find(game, from.slice, &found);
        size_t rest = back ? place + found : game->count - place;
        size_t most = kind % 4 == 0 ? SIZE_MAX : 1 + kind / 4 % 8;
        struct walk walk = {game, back, back ? rest : place, most, ends[kind % 4]};
        int status = back ? driver->scan_back(game->kv, from.slice, visit, &walk)
                          : driver->scan(game->kv, from.slice, visit, &walk);
        expect_status(back ? "scan_back" : "scan", KV_OK, status);
        expect_number("visits of a scan", rest < most ? rest : most, most - walk.left);
    }
    free(from.bytes);
}

static void effective_options(struct game *game)
{
    size_t capacity = 1 + next_number(game) % 5000;
    char *text = allocate(capacity);
    memset(text, 'x', capacity);
    expect_status("effective_options", KV_OK,
                  driver->effective_options(game->kv, text, capacity));
    if (memchr(text, '\0', capacity) == NULL)
        fail("effective_options", "a NUL at the end", "none");
    free(text);
}

static void open_store(struct game *game)
{
    int status = driver->open(game->folder, options, option_count, &game->kv);
    if (status != KV_OK)
        fail("open", "KV_OK", driver->error());
}

static void reopen(struct game *game)
{
    const struct kv_option unknown = {"no_such_option", "1"};
    struct kv *kv = NULL;
    expect_status("close", KV_OK, driver->close(game->kv));
    expect_status("open with an unknown option", KV_ERROR,
                  driver->open(game->folder, &unknown, 1, &kv));
    open_store(game);
}

static void play(struct game *game)
{
    switch (next(game) % 16) {
    case 0:
    case 1:
    case 2:
        write_one(game, true);
        break;
    case 3:
    case 4:
        write_one(game, false);
        break;
    case 5:
    case 6:
        get(game);
        break;
    case 7:
    case 8:
        remove_one(game);
        break;
    case 9:
    case 10:
        write_batch(game);
        break;
    case 11:
        scan(game, false);
        break;
    case 12:
        scan(game, true);
        break;
    case 13:
        reopen(game);
        break;
    case 14:
        expect_status("sync", KV_OK, driver->sync(game->kv));
        break;
    default:
        if (next(game) % 2 == 0)
            effective_options(game);
        else if (driver->compact != NULL)
            expect_status("compact", KV_OK, driver->compact(game->kv));
    }
}

/* At the end all records are there, and no other where the store can tell. */
static void check_all(struct game *game)
{
    for (size_t i = 0; i < game->count; i++) {
        struct entry *entry = &game->entries[i];
        struct operand key = {entry->key, key_of(entry), false};
        get_into(game, game->kv, key, entry->value_size);
    }
    if (driver->scan != NULL) {
        struct walk walk = {game, false, 0, SIZE_MAX, 1};
        struct kv_slice first = {"", 0};
        expect_status("scan", KV_OK, driver->scan(game->kv, first, visit, &walk));
        expect_number("records of a scan", game->count, walk.next);
    }
}

static int remove_path(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static void refuse(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(1);
}

/* Cuts the text into the options, which stay until the process ends. */
static void read_options(const char *given)
{
    char *text = strdup(given);
    if (text == NULL)
        abort();
    for (char *name = strtok(text, ","); name != NULL; name = strtok(NULL, ",")) {
        char *equals = strchr(name, '=');
        if (equals == NULL || option_count == MOST_OPTIONS)
            refuse("KVBENCH_FUZZ_OPTIONS: name=value,name=value, four at most");
        *equals = '\0';
        options[option_count++] = (struct kv_option){name, equals + 1};
    }
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count, (void)arguments;
    char error[512];
    const char *shim = getenv("KVBENCH_FUZZ_SHIM");
    const char *given = getenv("KVBENCH_FUZZ_OPTIONS");
    if (shim == NULL)
        refuse("KVBENCH_FUZZ_SHIM is not set: it names the shim to fuzz");
    driver = bench_driver(shim, error, sizeof error);
    if (driver == NULL)
        refuse(error);
    checked = (driver->capabilities & KV_FORGETS) == 0;
    read_options(given == NULL ? "" : given);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct game game; /* too large for the stack under a sanitizer */
    const char *place = getenv("KVBENCH_FUZZ_PLACE");
    if (place == NULL)
        place = getenv("TMPDIR");
    game.input = data;
    game.left = size;
    snprintf(game.folder, sizeof game.folder, "%s/contract-XXXXXX",
             place == NULL ? "/dev/shm" : place);
    if (mkdtemp(game.folder) == NULL) {
        perror(game.folder);
        abort();
    }
    open_store(&game);
    while (game.left > 0)
        play(&game);
    check_all(&game);
    expect_status("close", KV_OK, driver->close(game.kv));
    open_store(&game);
    check_all(&game);
    expect_status("close", KV_OK, driver->close(game.kv));
    while (game.count > 0)
        take_out(&game, game.count - 1);
    if (nftw(game.folder, remove_path, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        perror(game.folder);
        abort();
    }
    return 0;
}
