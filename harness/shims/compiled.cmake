# Stores whose engines no distribution ships: their C sources lie in crates, and are compiled into
# the shims.

# kv_compiled(NAME SOURCES files INCLUDE folders [DEFINE definitions] [LIBRARIES libraries])
# The shim exports none of the engine's symbols. The engine has no assertions.
function(kv_compiled name)
  cmake_parse_arguments(PARSE_ARGV 1 engine "" "" "SOURCES;INCLUDE;DEFINE;LIBRARIES")
  add_library(${name}_engine STATIC ${engine_SOURCES})
  target_include_directories(${name}_engine PRIVATE ${engine_INCLUDE})
  target_compile_definitions(${name}_engine PRIVATE NDEBUG ${engine_DEFINE})
  target_compile_options(${name}_engine PRIVATE -O2 -w) # its warnings are not ours to mend
  set_target_properties(${name}_engine PROPERTIES
    POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
  target_link_libraries(${name}_engine PRIVATE Threads::Threads ${engine_LIBRARIES})
  kv_shim(${name})
  target_include_directories(${name} SYSTEM PRIVATE ${engine_INCLUDE})
  target_link_libraries(${name} PRIVATE ${name}_engine)
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
endfunction()

# Where there is no cargo, an older release from a package of npm's.
function(kv_mdbx)
  kv_unwanted(mdbx reason)
  if(NOT reason)
    set(folder ${CMAKE_BINARY_DIR}/crates/mdbx-sys-14.4.0)
    kv_crate(mdbx-sys 14.4.0 1f7c4502adb435d9aee303b3675aafa3f2f70465fff32c64c37859ccf340fd48
      ${folder} reason)
    set(base ${folder}/mdbx-sys-14.4.0/libmdbx)
    set(silent MDBX_DEBUG=-1 MDBX_CHECKING=0) # it would write on stderr at each fork
    if(reason)
      set(folder ${CMAKE_BINARY_DIR}/npm/lmdbx-0.5.0)
      kv_npm_package(lmdbx 0.5.0 24658a0a47384788dd56911053c36da565fc9db74d08e5bbc4a61211af083ee4
        ${folder} older)
      if(NOT older)
        message(STATUS "store mdbx: an older release; the newer one is ${reason}")
        set(reason "")
        set(silent "")
        set(base ${folder}/package/dependencies/libmdbx)
      endif()
    endif()
  endif()
  if(NOT reason) # the same bytes whenever it is compiled
    kv_compiled(mdbx SOURCES ${base}/mdbx.c INCLUDE ${base}
      DEFINE ${silent} "MDBX_BUILD_TIMESTAMP=\"\"" "MDBX_BUILD_FLAGS=\"-O2 -DNDEBUG\"")
  endif()
  kv_report(mdbx "${reason}")
endfunction()

function(kv_tidesdb)
  kv_unwanted(tidesdb reason)
  set(headers snappy-c.h lz4.h zstd.h)
  set(names snappy lz4 zstd)
  foreach(header library IN ZIP_LISTS headers names)
    find_path(KV_${library}_INCLUDE ${header})
    find_library(KV_${library}_LIBRARY ${library})
    if(NOT reason AND NOT (KV_${library}_INCLUDE AND KV_${library}_LIBRARY))
      set(reason "not built: library ${library} not found (Debian: lib${library}-dev)")
    endif()
    string(TOUPPER TIDESDB_HAVE_${library} compression)
    list(APPEND compressions ${compression})
    list(APPEND libraries ${KV_${library}_LIBRARY})
    list(APPEND include ${KV_${library}_INCLUDE})
  endforeach()
  if(NOT reason)
    set(folder ${CMAKE_BINARY_DIR}/crates/tidesdb-1.0.0)
    kv_crate(tidesdb 1.0.0 374c204a7833531058f07994af87d1571e2a39fc0d00fa19d8b7bb1149d3dc03
      ${folder} reason)
  endif()
  if(NOT reason)
    set(base ${folder}/tidesdb-1.0.0/tidesdb)
    file(READ ${base}/CMakeLists.txt text)
    string(REGEX MATCH "VERSION ([0-9]+\\.[0-9]+\\.[0-9]+)" text "${text}")
    set(PROJECT_VERSION ${CMAKE_MATCH_1})
    configure_file(${base}/src/tidesdb_version.h.in ${folder}/version/tidesdb_version.h)
    file(GLOB_RECURSE sources ${base}/src/*.c)
    kv_compiled(tidesdb SOURCES ${sources} ${base}/external/xxhash.c
      INCLUDE ${base}/include ${base}/src ${base}/external ${folder}/version ${include}
      DEFINE ${compressions} TIDESDB_HAVE_POSIX_FALLOCATE LIBRARIES ${libraries} m)
  endif()
  kv_report(tidesdb "${reason}")
endfunction()

kv_mdbx()
kv_tidesdb()
