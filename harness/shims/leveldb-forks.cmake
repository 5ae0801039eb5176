# For the forks of LevelDB, which no distribution ships. Their source lies in npm packages of bindings
# for Node.js.

include(CheckLanguage)
if(NOT CMAKE_CXX_COMPILER)
  unset(CMAKE_CXX_COMPILER CACHE) # look again for what was missing before
endif()
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  find_package(Threads REQUIRED)
endif()

# kv_leveldb_fork(NAME PACKAGE package VERSION version SHA256 sum SOURCES folder INCLUDE folder
#                 [CONFIGURATION folder])
# The folders are relative: SOURCES and CONFIGURATION to the package's deps/leveldb, INCLUDE, where
# the C header's folder is, to SOURCES. Stock LevelDB and its forks use the same names, so the fork is
# linked into its shim and none of its symbols is exported.
function(kv_leveldb_fork name)
  cmake_parse_arguments(PARSE_ARGV 1 fork "" "PACKAGE;VERSION;SHA256;SOURCES;INCLUDE;CONFIGURATION" "")
  set(folder ${CMAKE_BINARY_DIR}/npm/${fork_PACKAGE}-${fork_VERSION})
  set(reason "")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64|i[3-6]86)$")
    set(reason "not built: its source has no atomic operations for ${CMAKE_SYSTEM_PROCESSOR}")
  elseif(NOT CMAKE_CXX_COMPILER)
    set(reason "not built: no C++ compiler found (Debian: g++)")
  else()
    kv_npm_package(${fork_PACKAGE} ${fork_VERSION} ${fork_SHA256} ${folder} reason)
  endif()
  set(reason "${reason}" PARENT_SCOPE)
  if(reason)
    return()
  endif()
  set(base ${folder}/package/deps/leveldb/${fork_SOURCES})
  set(snappy ${folder}/package/deps/snappy)
  add_library(${name}_snappy STATIC ${snappy}/snappy-1.1.1/snappy.cc
    ${snappy}/snappy-1.1.1/snappy-sinksource.cc ${snappy}/snappy-1.1.1/snappy-stubs-internal.cc)
  target_include_directories(${name}_snappy PUBLIC ${snappy}/linux ${snappy}/snappy-1.1.1)
  target_compile_definitions(${name}_snappy PRIVATE HAVE_CONFIG_H=1)

  file(GLOB sources ${base}/db/*.cc ${base}/table/*.cc ${base}/util/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$|/db_bench\\.cc$|/leveldb_main\\.cc$|/test(harness|util)\\.cc$")
  add_library(${name}_engine STATIC ${sources} ${base}/port/port_posix.cc)
  target_include_directories(${name}_engine PRIVATE ${base} ${base}/include)
  target_compile_definitions(${name}_engine PRIVATE SNAPPY=1 LEVELDB_PLATFORM_POSIX=1 OS_LINUX=1 NDEBUG)
  if(fork_CONFIGURATION)
    target_include_directories(${name}_engine BEFORE PRIVATE
      ${folder}/package/deps/leveldb/${fork_CONFIGURATION})
    target_compile_definitions(${name}_engine PRIVATE HAVE_CONFIG_H=1)
  endif()
  target_link_libraries(${name}_engine PRIVATE ${name}_snappy Threads::Threads)
  set_target_properties(${name}_engine ${name}_snappy PROPERTIES
    CXX_STANDARD 17 POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
  # Old code as its authors left it: its warnings are not ours to mend.
  target_compile_options(${name}_engine PRIVATE -O2 -w -fno-builtin-memcmp)
  target_compile_options(${name}_snappy PRIVATE -O2 -w)

  kv_shim(${name} ${name} "")
  target_include_directories(${name} SYSTEM PRIVATE ${base}/${fork_INCLUDE})
  target_link_libraries(${name} PRIVATE ${name}_engine)
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()
