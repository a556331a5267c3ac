# CUDA kernels as data in the program: each .cu file becomes a fatbin with machine code for
# SLUICE_CUDA_ARCHITECTURES, and one generated source holds them all, by the stem of their file.
find_program(SLUICE_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin REQUIRED)
file(REAL_PATH ${SLUICE_NVCC} nvcc_path)
get_filename_component(cuda_root ${nvcc_path} DIRECTORY)
find_path(SLUICE_CUDA_INCLUDE cuda.h HINTS ${cuda_root}/../include REQUIRED)
set(SLUICE_CUDA_ARCHITECTURES 90a CACHE STRING "Architectures that kernels are compiled for, as in sm_<this>")

# A product and a sum are fused only where a kernel says so, as in the C++ code.
set(SLUICE_NVCC_FLAGS -std=c++20 -O3 -fmad=false -Werror all-warnings --expt-relaxed-constexpr)
foreach(architecture ${SLUICE_CUDA_ARCHITECTURES})
  list(APPEND SLUICE_NVCC_FLAGS -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()

set(SLUICE_CCACHE_OR_NOTHING "")
if(SLUICE_CCACHE)
  set(SLUICE_CCACHE_OR_NOTHING ${SLUICE_CCACHE})
endif()

# sluice_cuda_kernels(TARGET INCLUDES <folders...>): every .cu file below the caller's folder.
function(sluice_cuda_kernels target)
  cmake_parse_arguments(ARG "" "" "INCLUDES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cu)
  list(TRANSFORM ARG_INCLUDES PREPEND -I OUTPUT_VARIABLE includes)
  set(number 0)
  set(stems "")
  set(fatbins "")
  set(SLUICE_FATBIN_DATA "")
  set(SLUICE_FATBIN_SYMBOLS "")
  set(SLUICE_FATBIN_MODULES "")
  foreach(source ${sources})
    get_filename_component(stem ${source} NAME_WE)
    if(stem IN_LIST stems)
      message(FATAL_ERROR "two kernel files are called ${stem}.cu; a module is found by this name")
    endif()
    list(APPEND stems ${stem})
    file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${source})
    set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/fatbin/${stem}.fatbin)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fatbin)
    # The compiler cache keeps objects, not fatbins, so an object is made and its fatbin taken out of it.
    # The host's part of it is of no use, but has to compile: it has constructors' initializers, not bodies.
    # The cache's depend mode knows a file's headers without the preprocessor, which would see the host's code alone.
    add_custom_command(OUTPUT ${fatbin}
      COMMAND ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 ${SLUICE_CCACHE_OR_NOTHING} ${SLUICE_NVCC} ${SLUICE_NVCC_FLAGS}
              ${includes} -MD -MF ${fatbin}.d -MT ${fatbin} -c ${source} -o ${fatbin}.o
      COMMAND ${CMAKE_OBJCOPY} -O binary -j .nv_fatbin ${fatbin}.o ${fatbin}
      DEPENDS ${source} DEPFILE ${fatbin}.d COMMENT "Compiling ${relative}" VERBATIM)
    list(APPEND fatbins ${fatbin})
    string(APPEND SLUICE_FATBIN_DATA "    \".balign 64\\nsluice_fatbin_${number}:\\n.incbin \\\"${fatbin}\\\"\\n\"\n"
                                     "    \"sluice_fatbin_${number}_end:\\n\"\n")
    string(APPEND SLUICE_FATBIN_SYMBOLS
           "extern const std::byte sluice_fatbin_${number}[], sluice_fatbin_${number}_end[];\n")
    string(APPEND SLUICE_FATBIN_MODULES
           "    {\"${stem}\", {sluice_fatbin_${number}, sluice_fatbin_${number}_end}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  list(JOIN SLUICE_CUDA_ARCHITECTURES "\", \"" SLUICE_FATBIN_ARCHITECTURES)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/modules.cc)
  configure_file(${CMAKE_CURRENT_SOURCE_DIR}/modules.cc.in ${generated} @ONLY)
  set_source_files_properties(${generated} PROPERTIES OBJECT_DEPENDS "${fatbins}")
  target_sources(${target} PRIVATE ${generated})
endfunction()
