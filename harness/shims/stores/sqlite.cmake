# SQLite: what its configure script finds on Linux, without which it syncs files whole and sleeps for
# whole seconds. Debian adds SECURE_DELETE, which overwrites what is removed, and extensions, and omits
# lookaside memory (PRAGMA compile_options).
set(folder ${CMAKE_BINARY_DIR}/crates/libsqlite3-sys-0.38.2)
kv_crate(libsqlite3-sys 0.38.2 f1d20bef17f513b9b3004532233187769cd072d790971f4e4da0e346eb6401e8
  ${folder} reason)
if(reason)
  return()
endif()
kv_engine(sqlite BUILD "crate libsqlite3-sys 0.38.2"
  SOURCES ${folder}/libsqlite3-sys-0.38.2/sqlite3/sqlite3.c
  INCLUDE ${folder}/libsqlite3-sys-0.38.2/sqlite3
  DEFINITIONS HAVE_FDATASYNC=1 HAVE_USLEEP=1 HAVE_GMTIME_R=1 HAVE_LOCALTIME_R=1 HAVE_ISNAN=1
    HAVE_UTIME=1 HAVE_STRCHRNUL=1 HAVE_MALLOC_H=1 HAVE_MALLOC_USABLE_SIZE=1)
