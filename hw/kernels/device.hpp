// What lets one source be compiled by nvcc for a GPU and by any compiler for the host.
#pragma once

#if defined(__CUDACC__)
// A kernel body and all that it calls; everything is inlined, so that the state of a thread stays in registers.
#define REHEARSAL_DEVICE __device__ __forceinline__
#define REHEARSAL_BOTH __host__ __device__ __forceinline__
#define REHEARSAL_UNROLL _Pragma("unroll")
#else
#define REHEARSAL_DEVICE inline
#define REHEARSAL_BOTH inline
#define REHEARSAL_UNROLL
#endif
