/* WiredTiger's log-structured merge tree. */
static const char table_type[] = "key_format=u,value_format=u,type=lsm";
enum { LEAST_CACHE = 32 << 20, MAX_KEY = 16 << 20, MAX_VALUE = 64 << 20 };

#include "wiredtiger_store.h"
