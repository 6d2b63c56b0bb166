// Lets nvcc compile a source for a GPU and any compiler compile it for the host.
#pragma once

#if defined(__CUDACC__)
// For kernel bodies and all functions they call; everything is inlined, to keep the state of a thread in registers.
#define REHEARSAL_DEVICE __device__ __forceinline__
#define REHEARSAL_BOTH __host__ __device__ __forceinline__
#define REHEARSAL_UNROLL _Pragma("unroll")
#else
#define REHEARSAL_DEVICE inline
#define REHEARSAL_BOTH inline
#define REHEARSAL_UNROLL
#endif
