# CUDA for the module hw/cuda: the compiler, the libraries and NCCL, where all of them are there. Nothing else needs any.
#
# Sets REHEARSAL_HAS_CUDA. REHEARSAL_CUDA: AUTO (when found), ON (must be found) or OFF.
set(REHEARSAL_CUDA AUTO CACHE STRING "build the module for NVIDIA GPUs: AUTO, ON or OFF")
set_property(CACHE REHEARSAL_CUDA PROPERTY STRINGS AUTO ON OFF)
set(REHEARSAL_HAS_CUDA OFF)

# A macro: languages and packages must be known to the caller.
macro(find_cuda MISSING)
  set(${MISSING} "")
  find_program(NVCC nvcc PATHS /usr/local/cuda/bin)
  if(NOT NVCC AND NOT CMAKE_CUDA_COMPILER)
    set(${MISSING} "nvcc is neither in PATH nor in /usr/local/cuda/bin")
  else()
    # For the GPU of this machine; without one for the oldest, whose PTX the driver compiles for what comes after. All
    # three at once (preset gpu) take a minute and a half.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE CAPABILITY
                      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(CAPABILITY MATCHES "^([0-9]+)\\.([0-9]+)")
        set(CMAKE_CUDA_ARCHITECTURES ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
      else()
        set(CMAKE_CUDA_ARCHITECTURES 80)
      endif()
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # otherwise a second, static runtime is linked beside CUDA::cudart
    if(NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} ${NVCC})
    endif()
    include(CheckLanguage)
    check_language(CUDA)  # enable_language would end the configuration where nvcc does not work
    if(NOT CMAKE_CUDA_COMPILER)
      set(${MISSING} "nvcc does not compile")
    else()
      enable_language(CUDA)
      find_package(CUDAToolkit)
      # NCCL ships no CMake configuration.
      find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
      find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
      if(NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cupti)
        set(${MISSING} "the toolkit of nvcc has no cublasLt or no cupti")
      elseif(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
        set(${MISSING} "NCCL is missing")
      endif()
    endif()
  endif()
endmacro()

if(REHEARSAL_CUDA)
  find_cuda(WHY)
  if(NOT WHY)
    set(REHEARSAL_HAS_CUDA ON)
    if(CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
    if(NOT TARGET NCCL::nccl)
      add_library(NCCL::nccl SHARED IMPORTED)
      set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                            INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
    endif()
    # CMake 3.25 does not know how to ask nvcc for C++20 and refuses to, or asks for nothing where it is not required:
    # so by hand.
    set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
    # -Wpedantic and -Wconversion are left out: they complain about the code that nvcc itself generates.
    add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-Wshadow;-Wreorder>")
    if(REHEARSAL_STRICT)
      add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
    endif()
  elseif(REHEARSAL_CUDA STREQUAL AUTO)
    message(STATUS "Without the module for NVIDIA GPUs: ${WHY}")
  else()
    message(FATAL_ERROR "REHEARSAL_CUDA is ${REHEARSAL_CUDA}, and ${WHY}")
  endif()
endif()
