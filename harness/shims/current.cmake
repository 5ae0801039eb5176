# The current releases of engines that distributions carry old, or with assertions. Packages of bindings
# hold their sources; checksums say that they are what was tried. Each becomes a target NAME_engine, of
# which kv_store builds NAME: -O2 -DNDEBUG, hidden symbols, and its authors' defaults otherwise. A
# target that is missing leaves NAME to the distribution's library.

# Why the current release of an engine is not to be built, or nothing.
function(kv_unwanted_engine name reason)
  kv_unwanted(${name} found)
  if(KV_SANITIZE AND NOT found)
    set(found "not built: sanitizers look at the shims, not at engines")
  endif()
  set(${reason} "${found}" PARENT_SCOPE)
endfunction()

# SQLite: what its configure script finds on Linux, without which it syncs files whole and sleeps for
# whole seconds. Debian adds SECURE_DELETE, which overwrites what is removed, and extensions, and omits
# lookaside memory (PRAGMA compile_options).
set(folder ${CMAKE_BINARY_DIR}/crates/libsqlite3-sys-0.38.2)
kv_unwanted_engine(sqlite reason)
if(NOT reason)
  kv_crate(libsqlite3-sys 0.38.2 f1d20bef17f513b9b3004532233187769cd072d790971f4e4da0e346eb6401e8
    ${folder} reason)
endif()
kv_engine(sqlite "${reason}" BUILD "crate libsqlite3-sys 0.38.2"
  SOURCES ${folder}/libsqlite3-sys-0.38.2/sqlite3/sqlite3.c
  INCLUDE ${folder}/libsqlite3-sys-0.38.2/sqlite3
  DEFINITIONS HAVE_FDATASYNC=1 HAVE_USLEEP=1 HAVE_GMTIME_R=1 HAVE_LOCALTIME_R=1 HAVE_ISNAN=1
    HAVE_UTIME=1 HAVE_STRCHRNUL=1 HAVE_MALLOC_H=1 HAVE_MALLOC_USABLE_SIZE=1)

# LMDB 0.9, whose files LMDB 1.0 (2026) can't read. Its own Makefile leaves assertions on.
set(folder ${CMAKE_BINARY_DIR}/python3/lmdb-3.0.0)
kv_unwanted_engine(lmdb reason)
if(NOT reason)
  kv_unpack("lmdb 3.0.0" 06dda0723545e14d56ac7dcd6f582d9922c2ed5e16f1c3f8d0e670a96ec2ee65
    ${folder} reason python3/lmdb-3.0.0.tar.gz python3 "Debian: python3-pip"
    -m pip download --retries 1 --no-deps --no-binary lmdb lmdb==3.0.0)
endif()
kv_engine(lmdb "${reason}" BUILD "PyPI lmdb 3.0.0"
  SOURCES ${folder}/lmdb-3.0.0/lib/mdb.c ${folder}/lmdb-3.0.0/lib/midl.c
  INCLUDE ${folder}/lmdb-3.0.0/lib)

# LevelDB as it was in April 2023 (068d5ee), two years after its last release, with the Snappy of the
# same package. As in its own CMakeLists.txt, without exceptions and run-time types; without Google's
# crc32c library, which Debian does not link either.
set(folder ${CMAKE_BINARY_DIR}/crates/cruzbit-leveldb-sys-1.0.0)
set(base ${folder}/cruzbit-leveldb-sys-1.0.0/deps/leveldb-1.23)
set(snappy ${folder}/cruzbit-leveldb-sys-1.0.0/deps/snappy-1.1.10)
kv_unwanted_engine(leveldb reason)
if(NOT reason AND NOT CMAKE_CXX_COMPILER)
  set(reason "not built: no C++ compiler found (Debian: g++)")
endif()
if(NOT reason)
  kv_crate(cruzbit-leveldb-sys 1.0.0 6aca7f71b713516efeff011de3bb63ba56c46edb86da7c792eb64bae508ac09c
    ${folder} reason)
endif()
if(NOT reason)
  file(GLOB sources ${base}/db/*.cc ${base}/table/*.cc ${base}/util/*.cc)
  list(FILTER sources EXCLUDE REGEX "(_test|test_main|testutil|leveldbutil|_windows)\\.cc$")
  # What Snappy's own CMakeLists.txt sets.
  set(HAVE_SYS_UIO_H_01 1)
  set(PROJECT_VERSION_MAJOR 1)
  set(PROJECT_VERSION_MINOR 1)
  set(PROJECT_VERSION_PATCH 10)
  configure_file(${snappy}/snappy-stubs-public.h.in ${folder}/snappy-stubs-public.h)
endif()
kv_engine(leveldb "${reason}" BUILD "crate cruzbit-leveldb-sys 1.0.0"
  SOURCES ${sources} ${snappy}/snappy.cc ${snappy}/snappy-sinksource.cc ${snappy}/snappy-stubs-internal.cc
  INCLUDE ${base} ${base}/include ${snappy} ${folder}
  DEFINITIONS LEVELDB_PLATFORM_POSIX=1 LEVELDB_HAS_PORT_CONFIG_H=0 HAVE_SNAPPY=1 HAVE_ZSTD=0 HAVE_CRC32C=0
    HAVE_FDATASYNC=1 HAVE_FULLFSYNC=0 HAVE_O_CLOEXEC=1
    HAVE_ATTRIBUTE_ALWAYS_INLINE=1 HAVE_BUILTIN_CTZ=1 HAVE_BUILTIN_EXPECT=1 HAVE_BUILTIN_PREFETCH=1 HAVE_SYS_UIO_H=1
    HAVE_UNISTD_H=1 HAVE_SYS_MMAN_H=1 HAVE_FUNC_MMAP=1)
if(TARGET leveldb_engine)
  target_compile_options(leveldb_engine PRIVATE -fno-exceptions -fno-rtti)
  set_target_properties(leveldb_engine PROPERTIES CXX_STANDARD 17)
endif()

# RocksDB would take half an hour to compile. Its authors publish the library inside their Java package,
# compiled for release and with its C interface; a crate of the same version has the header.
set(version 10.10.1)
set(folder ${CMAKE_BINARY_DIR}/mvn/rocksdbjni-${version}-linux64)
set(header ${CMAKE_BINARY_DIR}/crates/rust-librocksdb-sys-0.42.0+${version})
kv_unwanted_engine(rocksdb reason)
if(NOT reason)
  kv_crate(rust-librocksdb-sys 0.42.0+${version} 6522f8dfc02acd618477cd9aa94234f6a823ce578bba66215f15df8cb09a97d5
    ${header} reason)
endif()
if(NOT reason)
  kv_unpack("rocksdbjni ${version}" fda4a26cd4ea229636c5379ed41d827ce119a99c404fab94d9f863783c9ccb18
    ${folder} reason mvn/rocksdbjni-${version}-linux64.jar mvn "make engines"
    --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy
    -Dartifact=org.rocksdb:rocksdbjni:${version}:jar:linux64 -DoutputDirectory=${CMAKE_BINARY_DIR}/mvn)
endif()
set(built ${folder}/librocksdbjni-linux-${CMAKE_SYSTEM_PROCESSOR}.so)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  set(built ${folder}/librocksdbjni-linux64.so)
endif()
if(NOT reason AND NOT EXISTS ${built})
  set(reason "not built: rocksdbjni ${version} has no library for ${CMAKE_SYSTEM_PROCESSOR}")
endif()
if(reason)
  kv_older(rocksdb "${reason}")
else()
  set(library librocksdb.so.${version}) # from this name the shim takes the version
  file(COPY_FILE ${built} ${CMAKE_BINARY_DIR}/${library} ONLY_IF_DIFFERENT)
  install(FILES ${CMAKE_BINARY_DIR}/${library} DESTINATION ${DESTINATION})
  add_library(rocksdb_engine INTERFACE)
  target_include_directories(rocksdb_engine SYSTEM INTERFACE
    ${header}/rust-librocksdb-sys-0.42.0+${version}/rocksdb/include)
  target_link_options(rocksdb_engine INTERFACE -L${CMAKE_BINARY_DIR})
  target_link_libraries(rocksdb_engine INTERFACE -l:${library})
  set_target_properties(rocksdb_engine PROPERTIES KV_BUILD "Maven rocksdbjni ${version}")
endif()
