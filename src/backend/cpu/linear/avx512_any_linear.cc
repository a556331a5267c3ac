// Linear for AVX-512 with VNNI: 16 outputs a vector, up to 12 rows of x in registers.
#include "backend/cpu/linear/avx512_vector.h"

namespace sluice::cpu {

constinit const LinearKernels kAvx512LinearKernels = MakeKernels<V512, 1, 2, 4, 8, 12>();

}  // namespace sluice::cpu
