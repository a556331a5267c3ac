# The libraries that the engine stands on; all are Debian packages that scripts/lib/packages installs.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED)
# Its headers alone: Debian's CMake file would link the shared library too.
find_path(TOMLPLUSPLUS_HEADERS toml++/toml.h REQUIRED)
find_package(Boost 1.81 REQUIRED)
# Its headers alone: the library is opened when a model is fetched, so that no other start loads it and what it needs.
find_path(CURL_HEADERS curl/curl.h REQUIRED)
find_package(ZLIB REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
if(SLUICE_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()

# Flags for our own code only. Floating-point contraction is off: a fused multiply-add is written
# where it is meant, so that every kernel that computes a row computes the same bits.
add_library(sluice_flags INTERFACE)
target_compile_options(sluice_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers
  -ffp-contract=off -fno-math-errno)
if(SLUICE_SANITIZE)
  target_compile_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all $<$<BOOL:$<TARGET_PROPERTY:SLUICE_ADDRESSES_ONLY>>:-fno-sanitize=undefined>)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
  # Debug information makes programs of half a gigabyte: 3 s of the processor instead of 13 for
  # sluice_engine_test. What ships is linked as Debian's compiler does.
  find_program(SLUICE_LLD ld.lld)
  if(SLUICE_LLD)
    target_link_options(sluice_flags INTERFACE -fuse-ld=lld)
  endif()
else()
  target_link_options(sluice_flags INTERFACE -static-libstdc++ -static-libgcc)
endif()
