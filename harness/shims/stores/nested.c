/* Records as files below two levels of folders, aa/bb/aabb..., as many web caches and git do. */
enum { NESTED = 1 };

#include "folder.h"
