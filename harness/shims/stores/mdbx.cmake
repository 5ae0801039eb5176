# No distribution ships it. Where there is no cargo, an older release from a package of npm's.
set(folder ${CMAKE_BINARY_DIR}/crates/mdbx-sys-14.4.0)
kv_crate(mdbx-sys 14.4.0 1f7c4502adb435d9aee303b3675aafa3f2f70465fff32c64c37859ccf340fd48
  ${folder} reason)
set(base ${folder}/mdbx-sys-14.4.0/libmdbx)
set(silent MDBX_DEBUG=-1 MDBX_CHECKING=0) # it would write on stderr at each fork
if(reason)
  set(folder ${CMAKE_BINARY_DIR}/npm/lmdbx-0.5.0)
  kv_npm_package(lmdbx 0.5.0 24658a0a47384788dd56911053c36da565fc9db74d08e5bbc4a61211af083ee4
    ${folder} older)
  if(older)
    return()
  endif()
  kv_older(mdbx "${reason}")
  set(silent "")
  set(base ${folder}/package/dependencies/libmdbx)
endif()
# The same bytes whenever it is compiled.
kv_engine(mdbx SOURCES ${base}/mdbx.c INCLUDE ${base}
  DEFINITIONS ${silent} "MDBX_BUILD_TIMESTAMP=\"\"" "MDBX_BUILD_FLAGS=\"-O2 -DNDEBUG\"")
