/* WiredTiger's B-tree. */
static const char store_name[] = "wiredtiger-btree";
static const char table_type[] = "key_format=u,value_format=u,type=file";

#include "wiredtiger_store.h"
