/* open_close SHIM FOLDER: opens a store, uses it and closes it, three times as it ships and once
 * with each of its settings, and provokes the errors that can be; then ends, for LeakSanitizer. */
#include "../../shims/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TIMES = 3, RECORDS = 50, VALUE = 300 };

static const struct kv_driver *driver;

static void expect(const char *what, bool fine)
{
    if (fine)
        return;
    fprintf(stderr, "%s: %s: %s\n", driver->name, what, driver->error());
    exit(2);
}

/* What the null store answers means nothing. */
static void expect_status(const char *what, int expected, int status)
{
    expect(what, status == expected || (driver->capabilities & KV_FORGETS) != 0);
}

static int visit(void *context, struct kv_slice key, struct kv_slice value)
{
    size_t *left = context;
    (void)key, (void)value;
    return --*left == 0;
}

/* To its end, and no further than the visitor says. */
static void scan(struct kv *kv)
{
    const struct kv_slice from = {"2", 1};
    for (size_t most = 3; driver->scan != NULL && most <= RECORDS; most += RECORDS - 3) {
        for (enum kv_direction direction = KV_FORWARD; direction <= KV_BACKWARD; direction++) {
            size_t left = most;
            expect_status("scan", KV_OK, driver->scan(kv, from, direction, visit, &left));
        }
    }
}

static void use(struct kv *kv)
{
    char key[RECORDS][12], buffer[VALUE], text[4096];
    static const char bytes[VALUE];
    const struct kv_slice value = {bytes, VALUE};
    const struct kv_record absent = {{"absent", 6}, value};
    struct kv_record batch[RECORDS];
    size_t size;
    for (int i = 0; i < RECORDS; i++) {
        snprintf(key[i], sizeof key[i], "%02d", i);
        batch[i] = (struct kv_record){{key[i], 2}, value};
        expect_status("insert", KV_OK, driver->write(kv, KV_INSERT, &batch[i], 1));
    }
    expect_status("insert again", KV_EXISTS, driver->write(kv, KV_INSERT, batch, 1));
    expect_status("put", KV_OK, driver->write(kv, KV_PUT, batch, RECORDS));
    expect_status("get", KV_OK, driver->get(kv, batch[0].key, buffer, VALUE, &size));
    expect_status("get too large", KV_TOO_LARGE, driver->get(kv, batch[0].key, buffer, 1, &size));
    expect_status("get absent", KV_NOT_FOUND, driver->get(kv, absent.key, buffer, VALUE, &size));
    batch[0].value.size = 0;
    expect_status("update", KV_OK, driver->write(kv, KV_UPDATE, batch, 1));
    expect_status("update absent", KV_NOT_FOUND, driver->write(kv, KV_UPDATE, &absent, 1));
    expect_status("remove absent", KV_NOT_FOUND, driver->write(kv, KV_REMOVE, &absent, 1));
    scan(kv);
    struct kv *session;
    int begun = driver->begin == NULL ? KV_ERROR : driver->begin(kv, &session);
    if (begun == KV_OK) { /* a setting may allow no second one */
        expect_status("get", KV_OK, driver->get(session, batch[1].key, buffer, VALUE, &size));
        expect_status("end", KV_OK, driver->end(session));
    }
    expect_status("sync", KV_OK, driver->sync(kv));
    expect_status("effective_options", KV_OK, driver->effective_options(kv, text, sizeof text));
    for (int i = 0; i < RECORDS; i++)
        expect_status("remove", KV_OK, driver->write(kv, KV_REMOVE, &batch[i], 1));
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0)
        return;
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(2);
}

/* With each setting's least number or its word, in a folder of its own. A machine may lack what a
 * setting needs; then opening fails, and must not leak either. */
static void use_settings(const char *folder)
{
    int number = 0;
    for (const struct kv_setting *setting = driver->settings; setting->name != NULL; setting++) {
        char path[4096], least[32];
        struct kv *kv = NULL;
        snprintf(least, sizeof least, "%llu", (unsigned long long)setting->least);
        const struct kv_option option = {setting->name,
                                         setting->value == NULL ? least : setting->value};
        if (setting->means == NULL)
            continue;
        snprintf(path, sizeof path, "%s/%d", folder, number++);
        make_folder(path);
        if (driver->open(path, &option, 1, &kv) != KV_OK) {
            fprintf(stderr, "%s: %s=%s: %s\n", driver->name, option.name, option.value,
                    driver->error());
            continue;
        }
        use(kv);
        expect("close", driver->close(kv) == KV_OK);
    }
}

int main(int count, char **arguments)
{
    char error[STORE_ERROR], path[4096];
    struct kv *kv = NULL;
    if (count != 3) {
        fprintf(stderr, "usage: open_close SHIM FOLDER\n");
        return 2;
    }
    driver = store_load(arguments[1], error);
    if (driver == NULL) {
        fprintf(stderr, "%s\n", error);
        return 2;
    }
    snprintf(path, sizeof path, "%s/shipped", arguments[2]);
    make_folder(path);
    for (int i = 0; i < TIMES; i++) {
        expect("open", driver->open(path, NULL, 0, &kv) == KV_OK);
        use(kv);
        expect("close", driver->close(kv) == KV_OK);
    }
    use_settings(arguments[2]);
    const struct kv_option unknown = {"no_such_option", "1"};
    expect("open with an unknown option",
           store_open(driver, path, &unknown, 1, &kv, error) == KV_ERROR);
    snprintf(path, sizeof path, "%s/missing/missing", arguments[2]);
    if (driver->open(path, NULL, 0, &kv) == KV_OK) /* it looks for its folder later */
        driver->close(kv);
    return 0;
}
