# XGrammar's C++ core, which compiles grammars and finds the tokens that fit: the folder that
# scripts/lib/xgrammar.sh unpacks. Compiled with our flags, not with its own, which ask for fast
# math and for optimization at link time.
set(SLUICE_XGRAMMAR_NAME xgrammar-0.2.8)
set(places $ENV{SLUICE_DOWNLOADS} $ENV{SLUICE_CACHE} $ENV{XDG_CACHE_HOME}/sluice $ENV{HOME}/.cache/sluice)
list(TRANSFORM places APPEND /${SLUICE_XGRAMMAR_NAME})
find_path(SLUICE_XGRAMMAR include/xgrammar/xgrammar.h PATHS ${places} NO_DEFAULT_PATH
  DOC "The unpacked source package ${SLUICE_XGRAMMAR_NAME}")
if(NOT SLUICE_XGRAMMAR)
  list(JOIN places ", " places)
  message(FATAL_ERROR "${SLUICE_XGRAMMAR_NAME} is in none of ${places}; run scripts/lib/xgrammar.sh, which gets it "
    "from the Python package index, or give the folder as -DSLUICE_XGRAMMAR=FOLDER")
endif()

# Several sources make one unit, since most of a source's time is that of the headers they share: 71 s of the
# compiler instead of 130 (GCC 12, Intel Xeon).
file(GLOB xgrammar_sources ${SLUICE_XGRAMMAR}/cpp/*.cc ${SLUICE_XGRAMMAR}/cpp/support/*.cc
  ${SLUICE_XGRAMMAR}/cpp/converter_ext/*.cc)
# src/text/grammar_compiler/library_compiler.cc is this source with what is added to it.
list(FILTER xgrammar_sources EXCLUDE REGEX "/grammar_compiler\\.cc$")
add_library(sluice_xgrammar STATIC ${xgrammar_sources})
set_target_properties(sluice_xgrammar PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
foreach(source ${xgrammar_sources})
  get_filename_component(name ${source} NAME_WE)
  if(name MATCHES "^(earley_parser|grammar_matcher)$")
    set(group matching)
  elseif(name MATCHES "^(fsm|fsm_builder|grammar_functor)$")
    set(group automata)
  elseif(name MATCHES "^(json_schema_converter|structural_tag|regex_converter|lark_converter|grammar_parser)$")
    set(group languages)
  else()
    set(group rest)
  endif()
  set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
endforeach()
target_include_directories(sluice_xgrammar SYSTEM PUBLIC ${SLUICE_XGRAMMAR}/include ${SLUICE_XGRAMMAR}/cpp
  ${SLUICE_XGRAMMAR}/3rdparty/picojson ${SLUICE_XGRAMMAR}/3rdparty/dlpack/include)
target_compile_definitions(sluice_xgrammar PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
target_compile_options(sluice_xgrammar PRIVATE -w)
if(SLUICE_SANITIZE)
  # Optimization would cost more of the compiler's time than the tests take.
  target_compile_options(sluice_xgrammar PRIVATE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -O0)
endif()
