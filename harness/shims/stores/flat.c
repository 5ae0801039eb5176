/* All records as files in one folder. */
enum { NESTED = 0 };

#include "folder.h"
