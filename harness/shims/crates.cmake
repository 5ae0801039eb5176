# Sources that no distribution ships, or ships old. They lie in packages of other languages, whose
# own tools fetch them by name; the checksum says that they are what was tried.

# Runs `tool` with the further arguments, which leaves `archive` (the name may hold a *) below the
# build folder, and unpacks it into `folder`; `reason` says why not.
function(kv_unpack what sha256 folder reason archive tool advice)
  set(${reason} "" PARENT_SCOPE)
  if(EXISTS ${folder}) # unpacked before, and whole
    return()
  endif()
  file(GLOB found ${CMAKE_BINARY_DIR}/${archive})
  if(NOT found)
    find_program(KV_${tool} ${tool})
    if(NOT KV_${tool})
      set(${reason} "not built: ${tool} not found; it fetches ${what}, which holds the source (${advice})"
        PARENT_SCOPE)
      return()
    endif()
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${tool})
    execute_process(
      COMMAND ${CMAKE_COMMAND} -E env CARGO_HOME=${CMAKE_BINARY_DIR}/cargo CARGO_NET_RETRY=1
        ${KV_${tool}} ${ARGN}
      TIMEOUT 120 WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/${tool} OUTPUT_QUIET ERROR_QUIET)
    file(GLOB found ${CMAKE_BINARY_DIR}/${archive})
    if(NOT found)
      set(${reason} "not built: ${tool} can't fetch ${what}, which holds the source (${advice})"
        PARENT_SCOPE)
      return()
    endif()
  endif()
  file(SHA256 ${found} sum)
  if(NOT sum STREQUAL sha256)
    file(REMOVE ${found})
    set(${reason} "not built: SHA-256 of ${what} is ${sum}, expected ${sha256}" PARENT_SCOPE)
    return()
  endif()
  file(REMOVE_RECURSE ${folder}.part)
  file(ARCHIVE_EXTRACT INPUT ${found} DESTINATION ${folder}.part)
  file(RENAME ${folder}.part ${folder})
endfunction()

# A package of npm's; its files are in ${folder}/package.
macro(kv_npm_package package version sha256 folder reason)
  kv_unpack("${package} ${version}" ${sha256} ${folder} ${reason} npm/${package}-${version}.tgz
    npm "Debian: npm" pack --silent --fetch-retries=1 ${package}@${version})
endmacro()

# A crate of Rust's; its files are in ${folder}/${package}-${version}. Asked about a crate, cargo
# downloads it and compiles nothing.
macro(kv_crate package version sha256 folder reason)
  kv_unpack("${package} ${version}" ${sha256} ${folder} ${reason}
    cargo/registry/cache/*/${package}-${version}.crate
    cargo "cargo 1.82 or later; Debian: cargo-web" info --quiet ${package}@${version})
endmacro()
