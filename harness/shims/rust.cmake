# The stores in Rust: the crate in rust/, of which each feature becomes a shared object. cargo fetches
# the engines that Cargo.lock.in names, and checks their sums.

set(rust_source ${CMAKE_SOURCE_DIR}/rust)
set(rust_crate ${CMAKE_BINARY_DIR}/rust) # with the lock file; its src is a link to the source
set(rust_home CARGO_HOME=${CMAKE_BINARY_DIR}/cargo)
set(rust_advice "(Debian: rustc-web cargo-web)")

# The lock file names where crates come from as cargo itself does.
function(kv_cargo_lock reason)
  set(${reason} "" PARENT_SCOPE)
  file(MAKE_DIRECTORY ${rust_crate})
  configure_file(${rust_source}/Cargo.toml ${rust_crate}/Cargo.toml COPYONLY)
  file(CREATE_LINK ${rust_source}/src ${rust_crate}/src SYMBOLIC)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env ${rust_home} ${CARGO} metadata --offline --no-deps --format-version 1
    WORKING_DIRECTORY ${rust_crate} OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE status)
  if(status OR NOT said MATCHES "\"source\":\"([^\"]+)\"")
    set(${reason} "not built: cargo can't read Cargo.toml ${rust_advice}" PARENT_SCOPE)
    return()
  endif()
  set(registry ${CMAKE_MATCH_1})
  configure_file(${rust_source}/Cargo.lock.in ${rust_crate}/Cargo.lock @ONLY)
endfunction()

# Fetches the engines; `reason` says why no store in Rust can be built, or nothing.
function(kv_rust_fetch reason)
  set(why "")
  if(KV_SANITIZE)
    set(why "not built: no sanitizer applies to a shim in Rust")
  else()
    find_program(CARGO cargo NO_CACHE)
    find_program(RUSTC rustc NO_CACHE)
    if(NOT CARGO OR NOT RUSTC)
      set(why "not built: cargo or rustc not found ${rust_advice}")
    endif()
  endif()
  if(NOT why)
    execute_process(COMMAND ${RUSTC} --version --verbose OUTPUT_VARIABLE said ERROR_QUIET)
    string(REGEX MATCH "release: ([0-9.]+)" found "${said}")
    if(NOT found OR CMAKE_MATCH_1 VERSION_LESS 1.90)
      set(why "not built: rustc ${CMAKE_MATCH_1} is older than 1.90 ${rust_advice}")
    endif()
  endif()
  if(NOT why)
    kv_cargo_lock(why)
  endif()
  if(NOT why)
    string(REGEX REPLACE ".*host: ([^\n]+).*" "\\1" host "${said}")
    execute_process(
      COMMAND ${CMAKE_COMMAND} -E env ${rust_home} ${CARGO} fetch --locked --quiet --target ${host}
      TIMEOUT 300 WORKING_DIRECTORY ${rust_crate} OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE status)
    if(status)
      set(why "not built: cargo can't fetch the crates of Cargo.lock.in; that takes a network once")
    endif()
  endif()
  set(${reason} "${why}" PARENT_SCOPE)
  set(CARGO "${CARGO}" PARENT_SCOPE)
endfunction()

# What the crate's structures are held to: the layout of kv.h.
add_executable(rust_layout EXCLUDE_FROM_ALL rust/layout.c)
add_custom_command(OUTPUT ${rust_crate}/kv_layout.rs COMMAND rust_layout > ${rust_crate}/kv_layout.rs DEPENDS rust_layout VERBATIM)
add_custom_target(rust_layout_text DEPENDS ${rust_crate}/kv_layout.rs)

function(kv_rust_build name)
  file(READ ${rust_source}/Cargo.lock.in lock)
  string(REGEX MATCH "name = \"${name}\"\nversion = \"([^\"]+)\"" found "${lock}")
  set(version ${CMAKE_MATCH_1})
  # The same source gives the same bytes wherever it is built. Between flags stands a unit separator.
  string(ASCII 31 next)
  set(flags --remap-path-prefix=${CMAKE_BINARY_DIR}=build)
  if(KV_WERROR)
    string(APPEND flags ${next}-Dwarnings) # cargo silences those of the engines
  endif()
  set(output ${CMAKE_BINARY_DIR}/${name}.so)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E env ${rust_home} CARGO_ENCODED_RUSTFLAGS=${flags}
      KV_LAYOUT=${rust_crate}/kv_layout.rs KV_VERSION=${version}
      ${CARGO} build --release --locked --offline --quiet --features ${name} --target-dir ${rust_crate}/${name}
    COMMAND ${CMAKE_COMMAND} -E copy ${rust_crate}/${name}/release/libkvbench_shims.so ${output}
    DEPENDS ${rust_crate}/kv_layout.rs ${rust_crate}/Cargo.toml ${rust_crate}/Cargo.lock
      ${rust_source}/src/kv.rs ${rust_source}/src/lib.rs ${rust_source}/src/${name}.rs
    WORKING_DIRECTORY ${rust_crate} VERBATIM)
  add_custom_target(${name} ALL DEPENDS ${output})
  add_dependencies(${name} rust_layout_text)
  install(PROGRAMS ${output} DESTINATION ${DESTINATION})
endfunction()

# kv_rust(NAME...)
# Builds features of the crate. A store's version is that of the package of its name in the lock file.
function(kv_rust)
  foreach(name ${ARGN})
    kv_unwanted(${name} reason)
    if(NOT reason AND NOT asked)
      kv_rust_fetch(why)
      set(asked ON)
    endif()
    if(NOT reason)
      set(reason "${why}")
    endif()
    if(NOT reason)
      kv_rust_build(${name})
    endif()
    kv_report(${name} "${reason}")
  endforeach()
endfunction()
