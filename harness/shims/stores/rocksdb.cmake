# RocksDB would take half an hour to compile. Its authors publish the library inside their Java package,
# compiled for release and with its C interface; a crate of the same version has the header.
set(version 10.10.1)
set(folder ${CMAKE_BINARY_DIR}/mvn/rocksdbjni-${version}-linux64)
set(header ${CMAKE_BINARY_DIR}/crates/rust-librocksdb-sys-0.42.0+${version})
kv_crate(rust-librocksdb-sys 0.42.0+${version} 6522f8dfc02acd618477cd9aa94234f6a823ce578bba66215f15df8cb09a97d5
  ${header} reason)
if(reason)
  return()
endif()
kv_unpack("rocksdbjni ${version}" fda4a26cd4ea229636c5379ed41d827ce119a99c404fab94d9f863783c9ccb18
  ${folder} reason mvn/rocksdbjni-${version}-linux64.jar mvn "make engines"
  --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy
  -Dartifact=org.rocksdb:rocksdbjni:${version}:jar:linux64 -DoutputDirectory=${CMAKE_BINARY_DIR}/mvn)
if(reason)
  return()
endif()
set(built ${folder}/librocksdbjni-linux-${CMAKE_SYSTEM_PROCESSOR}.so)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  set(built ${folder}/librocksdbjni-linux64.so)
endif()
if(NOT EXISTS ${built})
  set(reason "not built: rocksdbjni ${version} has no library for ${CMAKE_SYSTEM_PROCESSOR}")
  return()
endif()
set(library librocksdb.so.${version}) # from this name the shim takes the version
file(COPY_FILE ${built} ${CMAKE_BINARY_DIR}/${library} ONLY_IF_DIFFERENT)
install(FILES ${CMAKE_BINARY_DIR}/${library} DESTINATION ${DESTINATION})
add_library(rocksdb_engine INTERFACE)
target_include_directories(rocksdb_engine SYSTEM INTERFACE
  ${header}/rust-librocksdb-sys-0.42.0+${version}/rocksdb/include)
target_link_options(rocksdb_engine INTERFACE -L${CMAKE_BINARY_DIR})
target_link_libraries(rocksdb_engine INTERFACE -l:${library})
set_target_properties(rocksdb_engine PROPERTIES KV_BUILD "Maven rocksdbjni ${version}")
