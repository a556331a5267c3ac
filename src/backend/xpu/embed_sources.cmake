# cmake -DROOT=<folder> -DSRC=<src/> -DOUT=<file.cc> -P embed_sources.cmake
#
# Writes the .cl files below ROOT as bytes into a C++ file that defines ClSources()
# (programs/sources.h). A line `#include "x.cl"` is replaced by SRC/x.cl, once per program, so that
# a driver sees one text. Files in pieces/ are only included. Each text also goes to a file beside
# OUT, in cl/, for compilers that run without a device.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE paths RELATIVE ${ROOT} ${ROOT}/*.cl)
list(SORT paths)

function(read_source path depth out)
  if(depth GREATER 8)
    message(FATAL_ERROR "${path}: includes are nested too deeply")
  endif()
  file(READ ${path} text)
  math(EXPR deeper "${depth} + 1")
  while(TRUE)
    string(REGEX MATCH "#include \"([^\"\n]+)\"\n" line "${text}")
    if(line STREQUAL "")
      break()
    endif()
    set(piece "${CMAKE_MATCH_1}")
    get_property(done GLOBAL PROPERTY included_pieces)
    set(body "")
    if(NOT piece IN_LIST done)
      set_property(GLOBAL APPEND PROPERTY included_pieces ${piece})
      read_source(${SRC}/${piece} ${deeper} body)
    endif()
    string(FIND "${text}" "${line}" at)
    string(LENGTH "${line}" length)
    string(SUBSTRING "${text}" 0 ${at} before)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${text}" ${at} -1 after)
    set(text "${before}${body}${after}")
  endwhile()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

get_filename_component(folder ${OUT} DIRECTORY)
set(arrays "")
set(rows "")
set(number 0)
foreach(path ${paths})
  if(path MATCHES "^pieces/")
    continue()
  endif()
  set_property(GLOBAL PROPERTY included_pieces "")
  read_source(${ROOT}/${path} 0 text)
  file(WRITE ${folder}/cl/${path} "${text}")
  file(READ ${folder}/cl/${path} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "\\.cl$" "" name ${path})
  string(APPEND arrays "constexpr char kSource${number}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", {kSource${number}, sizeof kSource${number} - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "#include \"backend/xpu/programs/sources.h\"

namespace sluice::xpu {
namespace {
${arrays}
constexpr ClSource kSources[] = {
${rows}};
}  // namespace

std::span<const ClSource> ClSources() { return kSources; }

}  // namespace sluice::xpu
")
