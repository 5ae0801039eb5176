# PerconaFT's authors are gone, and MariaDB dropped it: the source is in Debian 11's package of MariaDB 10.5, which
# harness/engines/old-debian.sh compiles into static libraries.
set(folder ${CMAKE_SOURCE_DIR}/../../build/engines/tokudb)
if(NOT EXISTS ${folder}/version)
  set(reason "not built: PerconaFT is in no current Debian; `make engines` compiles that of Debian 11")
  return()
endif()
if(KV_SANITIZE MATCHES "address")
  set(reason "not built: PerconaFT's allocator does not start under the address sanitizer")
  return()
endif()
enable_language(CXX) # its libraries need the runtime of C++
file(STRINGS ${folder}/version version)
add_library(tokudb_engine INTERFACE)
target_include_directories(tokudb_engine SYSTEM INTERFACE ${folder}/include)
target_link_libraries(tokudb_engine INTERFACE
  ${folder}/lib/libtokufractaltree_static.a ${folder}/lib/libtokuportability_static.a
  ${folder}/lib/liblzma.a ${folder}/lib/libsnappy.a z stdc++ Threads::Threads m ${CMAKE_DL_LIBS})
set_target_properties(tokudb_engine PROPERTIES KV_BUILD "MariaDB ${version}")
