/* What PerconaFT takes from MariaDB's header of this name. */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
typedef long long longlong;
typedef unsigned long long ulonglong;
