# SPDX-License-Identifier: Apache-2.0
# The portable core, CUDA build: the backend sources *_cuda.cu for the architectures in SEED_CUDA_ARCHS ("90;100").
# `seed-hpc kernels build` runs it with one architecture a time and reads the assembler's resource lines.
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
file(GLOB SEED_CUDA_SOURCES CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/*_cuda.cu
  ${CMAKE_CURRENT_SOURCE_DIR}/*/*_cuda.cu)
if(NOT SEED_CUDA_SOURCES)
  message(FATAL_ERROR "cuda/ holds no *_cuda.cu: there is no CUDA library to build")
endif()

if(SKBUILD)
  set(SEED_LIBRARY_DIR ${CMAKE_CURRENT_BINARY_DIR}/libraries)
  file(MAKE_DIRECTORY ${SEED_LIBRARY_DIR})
endif()
add_library(seed_cuda SHARED ${SEED_CUDA_SOURCES})
set_target_properties(seed_cuda PROPERTIES
  CUDA_ARCHITECTURES "${SEED_CUDA_ARCHS}"
  CUDA_STANDARD 17
  CUDA_RUNTIME_LIBRARY Static  # the library then needs a driver only, whatever toolkit the machine has
  LIBRARY_OUTPUT_DIRECTORY ${SEED_LIBRARY_DIR})
target_include_directories(seed_cuda PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/include)
target_compile_options(seed_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --fmad=false>  # no fused sums: results equal those of the CPU
  # Registers and spills go to the log, launch bounds into the PTX that is kept: `seed-hpc kernels` reads both.
  $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v --keep --keep-dir=${SEED_LIBRARY_DIR}>)
target_link_libraries(seed_cuda PRIVATE Threads::Threads PUBLIC seed_game_tables)
if(SKBUILD)
  install(TARGETS seed_cuda LIBRARY DESTINATION seed_hpc/_lib)
endif()
