/* All records as files in one folder. */
enum { NESTED = 0 };
static const char store_name[] = "flat";

#include "folder.h"
