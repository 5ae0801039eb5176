/* WiredTiger's B-tree. */
static const char table_type[] = "key_format=u,value_format=u,type=file";
enum { LEAST_CACHE = 4 << 20, MAX_KEY = 16 << 20, MAX_VALUE = 512 << 20 };

#include "wiredtiger_store.h"
