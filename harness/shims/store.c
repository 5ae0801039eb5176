#include "store.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a shim declared when it was loaded. It may write to its own driver later, so nothing reads
 * that again. */
struct loaded {
    struct loaded *next;
    const void *library;
    struct kv_driver driver;
    struct kv_setting settings[];
};

static struct loaded *all_loaded;

/* NULL, which stands for no text, stays NULL; `whole` becomes false without memory. */
static const char *copy_text(const char *text, bool *whole)
{
    char *copy = text == NULL ? NULL : strdup(text);
    *whole = *whole && (text == NULL || copy != NULL);
    return copy;
}

/* A driver and all that it points to. What is copied of it stays until exit, even without memory for
 * the rest. */
static struct loaded *copy_driver(const struct kv_driver *driver)
{
    size_t count = 0;
    while (driver->settings[count].name != NULL)
        count++;
    struct loaded *copy = calloc(1, sizeof *copy + (count + 1) * sizeof *copy->settings);
    bool whole = copy != NULL;
    if (!whole)
        return NULL;
    copy->driver = *driver;
    copy->driver.name = copy_text(driver->name, &whole);
    copy->driver.default_durability = copy_text(driver->default_durability, &whole);
    copy->driver.settings = copy->settings;
    for (size_t i = 0; i < count; i++) {
        const struct kv_setting *own = &driver->settings[i];
        copy->settings[i] = (struct kv_setting){
            .name = copy_text(own->name, &whole),
            .value = copy_text(own->value, &whole),
            .least = own->least,
            .means = copy_text(own->means, &whole),
            .lacks = copy_text(own->lacks, &whole),
        };
    }
    return whole ? copy : NULL;
}

/* What a driver lacks that kv.h requires; NULL if nothing. */
static const char *lacks(const struct kv_driver *driver)
{
    const struct {
        const char *name;
        bool there;
    } required[] = {
        {"name", driver->name != NULL},
        {"settings", driver->settings != NULL},
        {"default_durability", driver->default_durability != NULL},
        {"version", driver->version != NULL},
        {"error", driver->error != NULL},
        {"open", driver->open != NULL},
        {"close", driver->close != NULL},
        {"end", driver->end != NULL || driver->begin == NULL},
        {"get", driver->get != NULL},
        {"write", driver->write != NULL},
        {"scan", driver->scan != NULL || (driver->capabilities & KV_SCAN) == 0},
        {"sync", driver->sync != NULL},
        {"effective_options", driver->effective_options != NULL},
    };
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!required[i].there)
            return required[i].name;
    return NULL;
}

const struct kv_driver *store_load(const char *path, char error[STORE_ERROR])
{
    /* Local symbols: forks of one engine use the same names. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct kv_driver *driver = library == NULL ? NULL : dlsym(library, "kv_driver");
    if (driver == NULL) {
        snprintf(error, STORE_ERROR, "%s", dlerror());
        return NULL;
    }
    for (struct loaded *known = all_loaded; known != NULL; known = known->next)
        if (known->library == library)
            return &known->driver;
    if (driver->abi != KV_ABI) {
        snprintf(error, STORE_ERROR,
                 "built for ABI %" PRIu32 ", the harness has %d: build it again", driver->abi,
                 KV_ABI);
        return NULL;
    }
    const char *lacking = lacks(driver);
    if (lacking != NULL) {
        snprintf(error, STORE_ERROR, "its driver has no %s, which kv.h requires", lacking);
        return NULL;
    }
    struct loaded *copy = copy_driver(driver);
    if (copy == NULL) {
        snprintf(error, STORE_ERROR, "out of memory");
        return NULL;
    }
    copy->library = library;
    copy->next = all_loaded;
    all_loaded = copy;
    return &copy->driver;
}

static bool allows(const struct kv_setting *setting, const char *value)
{
    if (setting->means == NULL)
        return false;
    if (setting->value != NULL)
        return strcmp(setting->value, value) == 0;
    return value[0] != '\0' && value[strspn(value, "0123456789")] == '\0' &&
           strtoull(value, NULL, 10) >= setting->least;
}

/* Refuses an option that is not among the settings, and says which are. */
static int check_option(const struct kv_setting *settings, const struct kv_option *option,
                        char error[STORE_ERROR])
{
    char allowed[256] = "";
    bool known = false;
    for (const struct kv_setting *s = settings; s->name != NULL; s++) {
        size_t used = strlen(allowed);
        if (strcmp(s->name, option->name) != 0)
            continue;
        known = true;
        if (allows(s, option->value))
            return KV_OK;
        if (s->means != NULL && s->value != NULL)
            snprintf(allowed + used, sizeof allowed - used, " %s", s->value);
        else if (s->means != NULL)
            snprintf(allowed + used, sizeof allowed - used, " %" PRIu64 " or more", s->least);
    }
    if (!known)
        snprintf(error, STORE_ERROR, "unknown option '%s'", option->name);
    else
        snprintf(error, STORE_ERROR, "option %s: '%s' is not allowed; allowed:%s", option->name,
                 option->value, allowed[0] == '\0' ? " none" : allowed);
    return KV_ERROR;
}

int store_open(const struct kv_driver *driver, const char *path, const struct kv_option *options,
               size_t count, struct kv **kv, char error[STORE_ERROR])
{
    char unknown[32];
    for (size_t i = 0; i < count; i++)
        if (check_option(driver->settings, &options[i], error) != KV_OK)
            return KV_ERROR;
    int status = driver->open(path, options, count, kv);
    if (status == KV_OK)
        return KV_OK;
    snprintf(error, STORE_ERROR, "%s", store_reason(driver, status, unknown));
    return KV_ERROR;
}

bool store_holds(const struct kv_driver *driver, size_t key_size, size_t value_size)
{
    return key_size > 0 && key_size <= driver->max_key && value_size <= driver->max_value;
}

const char *store_reason(const struct kv_driver *driver, int status, char unknown[32])
{
    static const char *const reason[] = {
        [KV_NOT_FOUND] = "key not found",
        [KV_EXISTS] = "key exists",
        [KV_TOO_LARGE] = "key or value too large",
    };
    if (status >= KV_NOT_FOUND && status < KV_ERROR)
        return reason[status];
    if (status != KV_ERROR) {
        snprintf(unknown, 32, "undefined status %d", status);
        return unknown;
    }
    const char *why = driver->error();
    return why == NULL ? "an error without a reason" : why;
}
