# LevelDB as it was in April 2023 (068d5ee), two years after its last release, with the Snappy of the
# same package. As in its own CMakeLists.txt, without exceptions and run-time types; without Google's
# crc32c library, which Debian does not link either.
set(folder ${CMAKE_BINARY_DIR}/crates/cruzbit-leveldb-sys-1.0.0)
set(base ${folder}/cruzbit-leveldb-sys-1.0.0/deps/leveldb-1.23)
set(snappy ${folder}/cruzbit-leveldb-sys-1.0.0/deps/snappy-1.1.10)
if(NOT CMAKE_CXX_COMPILER)
  set(reason "not built: no C++ compiler found (Debian: g++)")
  return()
endif()
kv_crate(cruzbit-leveldb-sys 1.0.0 6aca7f71b713516efeff011de3bb63ba56c46edb86da7c792eb64bae508ac09c
  ${folder} reason)
if(reason)
  return()
endif()
file(GLOB sources ${base}/db/*.cc ${base}/table/*.cc ${base}/util/*.cc)
list(FILTER sources EXCLUDE REGEX "(_test|test_main|testutil|leveldbutil|_windows)\\.cc$")
# What Snappy's own CMakeLists.txt sets.
set(HAVE_SYS_UIO_H_01 1)
set(PROJECT_VERSION_MAJOR 1)
set(PROJECT_VERSION_MINOR 1)
set(PROJECT_VERSION_PATCH 10)
configure_file(${snappy}/snappy-stubs-public.h.in ${folder}/snappy-stubs-public.h)
kv_engine(leveldb BUILD "crate cruzbit-leveldb-sys 1.0.0"
  SOURCES ${sources} ${snappy}/snappy.cc ${snappy}/snappy-sinksource.cc ${snappy}/snappy-stubs-internal.cc
  INCLUDE ${base} ${base}/include ${snappy} ${folder}
  DEFINITIONS LEVELDB_PLATFORM_POSIX=1 LEVELDB_HAS_PORT_CONFIG_H=0 HAVE_SNAPPY=1 HAVE_ZSTD=0 HAVE_CRC32C=0
    HAVE_FDATASYNC=1 HAVE_FULLFSYNC=0 HAVE_O_CLOEXEC=1
    HAVE_ATTRIBUTE_ALWAYS_INLINE=1 HAVE_BUILTIN_CTZ=1 HAVE_BUILTIN_EXPECT=1 HAVE_BUILTIN_PREFETCH=1 HAVE_SYS_UIO_H=1
    HAVE_UNISTD_H=1 HAVE_SYS_MMAN_H=1 HAVE_FUNC_MMAP=1)
target_compile_options(leveldb_engine PRIVATE -fno-exceptions -fno-rtti)
set_target_properties(leveldb_engine PROPERTIES CXX_STANDARD 17)
