/* Records as files below two levels of folders, aa/bb/aabb..., as many web caches and git do. */
enum { NESTED = 1 };
static const char store_name[] = "nested";

#include "folder.h"
