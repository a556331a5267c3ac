# Sets `out` to files that include `sources`, those of a folder eight at a time. Half of what a file costs the
# compiler is headers, and most of the rest is templates that its neighbours ask for, too. Each is included
# by its path from src/, so that a clone elsewhere has the same files for the compiler cache. The CPU's
# kernels are compiled file by file, since they have instruction sets of their own, and so is the build with
# Clang, which shows that each file includes what it needs.
# A folder's files, and its tests, share one unnamed namespace then: what two of them declare there needs two
# names, also others than those of the folder's headers, which it would hide from its neighbours.
function(sluice_units out id sources alone)
  if(SLUICE_FUZZ OR id MATCHES "^backend_(cpu|cuda)")
    set(${out} ${sources} PARENT_SCOPE)
    return()
  endif()
  list(TRANSFORM alone PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(REMOVE_ITEM sources ${alone})
  set(units ${alone})
  set(number 0)
  while(sources)
    # The next folder's files: the first's and those beside it.
    list(GET sources 0 first)
    get_filename_component(folder ${first} DIRECTORY)
    set(beside ${sources})
    list(FILTER beside INCLUDE REGEX "^${folder}/[^/]*$")
    list(REMOVE_ITEM sources ${beside})
    while(beside)
      list(SUBLIST beside 0 8 few)
      list(REMOVE_ITEM beside ${few})
      set(text "")
      foreach(source ${few})
        file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/src ${source})
        string(APPEND text "#include \"${path}\"\n")
      endforeach()
      set(unit ${CMAKE_BINARY_DIR}/units/${id}_${number}.cc)
      file(CONFIGURE OUTPUT ${unit} CONTENT "${text}")
      list(APPEND units ${unit})
      math(EXPR number "${number} + 1")
    endwhile()
  endwhile()
  set(${out} ${units} PARENT_SCOPE)
endfunction()

# sluice_folder(NAME [OBJECT] [COLD] DEPENDS <folders...> LIBRARIES <targets...> [ALONE <files...>])
#
# One folder of src/ is one target. Its sources are the *.cc beside the call and below it, as far as no
# folder there is a target itself, without *_test, *_bench and *_fuzz, which become
# sluice_<name>_test, ..._bench and ..._fuzz, and *_fixture, which become the library
# sluice_<name>_fixture for tests (TEST_DEPENDS <name>/fixture elsewhere). A target sees only its own
# headers and those of the folders it depends on: the include path is a folder of links, one per
# folder, so an include that the layout forbids finds no file. OBJECT keeps every object of the
# folder in the program (implementations that register themselves by being linked). ALONE names files that
# have compiler options of their own. COLD: nothing is computed here that a user would wait for, so that the compiler
# need not spend half of its time on optimization: 10.7 s instead of 19.9 for eight files of cli (GCC 12, AMD EPYC 9004).
function(sluice_folder name)
  cmake_parse_arguments(ARG "OBJECT;COLD" "" "DEPENDS;LIBRARIES;TEST_DEPENDS;ALONE" ${ARGN})
  string(REPLACE "/" "_" id ${name})
  set(target sluice_${id})

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(GLOB_RECURSE lists CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt)
  list(REMOVE_ITEM lists ${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt)
  foreach(list ${lists})  # a folder inside this one that is a target of its own
    get_filename_component(inner ${list} DIRECTORY)
    file(GLOB_RECURSE others CONFIGURE_DEPENDS ${inner}/*.cc)
    list(REMOVE_ITEM sources ${others})
  endforeach()
  set(tests ${sources})
  set(benches ${sources})
  set(fuzzers ${sources})
  set(fixtures ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz|fixture)\\.cc$")
  list(FILTER fixtures INCLUDE REGEX "_fixture\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")

  set(links ${CMAKE_BINARY_DIR}/include/${id})
  get_filename_component(parent ${links}/${name} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${name} ${links}/${name} SYMBOLIC)

  sluice_units(sources ${id} "${sources}" "${ARG_ALONE}")
  set(scope PUBLIC)
  if(ARG_OBJECT)
    add_library(${target} OBJECT ${sources})
  elseif(sources)
    add_library(${target} STATIC ${sources})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${links} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${target} ${scope} ${ARG_LIBRARIES})
  if(scope STREQUAL PUBLIC)
    target_link_libraries(${target} PRIVATE sluice_flags)
  endif()
  if(NOT name STREQUAL base)
    list(APPEND ARG_DEPENDS base)
  endif()
  foreach(dependency ${ARG_DEPENDS})
    string(REPLACE "/" "_" dependency ${dependency})
    target_link_libraries(${target} ${scope} sluice_${dependency})
  endforeach()

  if(ARG_COLD)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
  endif()
  # Where little is computed, optimization of sanitized code costs more than it gains: a third of the
  # compiler's time (8.5 s with it and 5.7 without for src/server/http/http.cc).
  if(scope STREQUAL PUBLIC AND SLUICE_SANITIZE AND NOT SLUICE_FUZZ AND NOT id MATCHES "^(base|ops|backend|text|sample)")
    target_compile_options(${target} PRIVATE -O0)
  endif()
  if(SLUICE_TESTS AND fixtures)
    add_library(${target}_fixture STATIC EXCLUDE_FROM_ALL ${fixtures})
    target_link_libraries(${target}_fixture PUBLIC ${target} PRIVATE sluice_flags)
    target_compile_options(${target}_fixture PRIVATE -O0)
    list(APPEND ARG_TEST_DEPENDS ${name}/fixture)
  endif()
  list(APPEND ARG_TEST_DEPENDS base/fixture)
  if(SLUICE_TESTS AND tests AND name MATCHES "${SLUICE_UNIT_TESTS}")
    sluice_units(tests ${id}_test "${tests}" "")
    add_executable(${target}_test ${tests})
    target_link_libraries(${target}_test PRIVATE ${target} sluice_flags GTest::gmock GTest::gtest_main)
    foreach(dependency ${ARG_TEST_DEPENDS})
      string(REPLACE "/" "_" dependency ${dependency})
      target_link_libraries(${target}_test PRIVATE sluice_${dependency})
    endforeach()
    # Half of what a build compiles is tests, and half of that time is optimization: 23 s with it and
    # 11 without for src/exec/executor_test.cc, sanitized 54 and 31 for src/engine/step_test.cc (GCC 12,
    # AMD Zen). What the tests call is the library as it ships.
    target_compile_options(${target}_test PRIVATE -O0)
    # A third of a sanitized test's time again is checks of the test's own arithmetic: 10.6 s with them and 7.0
    # without for src/exec/graph_runner_test.cc. The library has them, and the test those of addresses.
    set_target_properties(${target}_test PROPERTIES SLUICE_ADDRESSES_ONLY ON)
    add_test(NAME ${name} COMMAND ${target}_test)
    set_tests_properties(${name} PROPERTIES LABELS unit)
  endif()
  if(SLUICE_TESTS AND benches AND NOT SLUICE_SANITIZE)  # of no use for figures
    add_executable(${target}_bench ${benches})
    target_link_libraries(${target}_bench PRIVATE ${target} sluice_flags benchmark::benchmark_main)
    foreach(dependency ${ARG_TEST_DEPENDS})
      string(REPLACE "/" "_" dependency ${dependency})
      target_link_libraries(${target}_bench PRIVATE sluice_${dependency})
    endforeach()
  endif()
  if(SLUICE_FUZZ)
    foreach(source ${fuzzers})
      get_filename_component(fuzzer ${source} NAME_WE)
      add_executable(${fuzzer} ${source})
      target_link_libraries(${fuzzer} PRIVATE ${target} sluice_flags)
      target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
      add_dependencies(fuzzers ${fuzzer})
    endforeach()
  endif()
endfunction()
