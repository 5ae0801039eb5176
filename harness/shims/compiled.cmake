# Stores whose engines no distribution ships: their C sources lie in crates, and are compiled into
# the shims.

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
        kv_older(mdbx "${reason}")
        set(reason "")
        set(silent "")
        set(base ${folder}/package/dependencies/libmdbx)
      endif()
    endif()
  endif()
  if(NOT reason) # the same bytes whenever it is compiled
    kv_engine(mdbx "" SOURCES ${base}/mdbx.c INCLUDE ${base}
      DEFINITIONS ${silent} "MDBX_BUILD_TIMESTAMP=\"\"" "MDBX_BUILD_FLAGS=\"-O2 -DNDEBUG\"")
    kv_engine_shim(mdbx)
  else()
    kv_report(mdbx "${reason}")
  endif()
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
    kv_engine(tidesdb "" SOURCES ${sources} ${base}/external/xxhash.c
      INCLUDE ${base}/include ${base}/src ${base}/external ${folder}/version ${include}
      DEFINITIONS ${compressions} TIDESDB_HAVE_POSIX_FALLOCATE LIBRARIES ${libraries} m)
    kv_engine_shim(tidesdb)
  else()
    kv_report(tidesdb "${reason}")
  endif()
endfunction()
