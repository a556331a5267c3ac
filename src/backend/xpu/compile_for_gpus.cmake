# cmake -DOCLOC=<ocloc> -DSOURCES=<folder> -DVARIANTS=<file> -P compile_for_gpus.cmake
#
# Compiles each line of VARIANTS, `program options...`, for Intel GPUs. Fails with the compiler's
# words when one is refused, when a program has no line, and when a function is inline.
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${VARIANTS} lines REGEX "^[^#]")
file(GLOB_RECURSE programs RELATIVE ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/*.cl)
list(FILTER programs EXCLUDE REGEX "^pieces/")
foreach(program ${programs})
  string(REGEX REPLACE "\\.cl$" "" program ${program})
  if(NOT "${lines}" MATCHES "(^|;)${program} ")
    message(FATAL_ERROR "${program} has no line in ${VARIANTS}: no GPU's compiler sees it")
  endif()
endforeach()
# An inline function has no body of its own in C99: a driver that does not inline it, as several won't
# where it is long, finds none.
file(GLOB_RECURSE sources ${CMAKE_CURRENT_LIST_DIR}/*.cl)
foreach(source ${sources})
  file(STRINGS ${source} bodiless REGEX "(^|[^a-z])inline ")
  if(bodiless)
    message(FATAL_ERROR "${source}: a function without a body of its own: ${bodiless}")
  endif()
endforeach()
set(scratch ${SOURCES}/ocloc)
file(MAKE_DIRECTORY ${scratch})
set(refused 0)
set(compiled 0)
foreach(line ${lines})
  string(REGEX MATCH "^([^ ]+) (.*)$" line "${line}")
  set(program ${CMAKE_MATCH_1})
  set(options "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt ${CMAKE_MATCH_2}")
  foreach(device dg2 pvc)
    execute_process(COMMAND ${OCLOC} compile -file ${SOURCES}/${program}.cl -device ${device}
                            -options "${options}" -output_no_suffix -output kernel
                    WORKING_DIRECTORY ${scratch} RESULT_VARIABLE result OUTPUT_VARIABLE said
                    ERROR_VARIABLE said)
    math(EXPR compiled "${compiled} + 1")
    if(NOT result EQUAL 0)
      math(EXPR refused "${refused} + 1")
      message("${device}: ${program} ${options}\n${said}")
    endif()
  endforeach()
endforeach()
if(refused GREATER 0 OR compiled EQUAL 0)
  message(FATAL_ERROR "${refused} of ${compiled} programs were refused")
endif()
message("${compiled} programs compiled")
