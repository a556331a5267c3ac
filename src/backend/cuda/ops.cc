#include "backend/cuda/ops.h"

#include "backend/cuda/activation/impls.h"
#include "backend/cuda/attention/impls.h"
#include "backend/cuda/attention/index_impls.h"
#include "backend/cuda/attention/latent_impls.h"
#include "backend/cuda/dense_chain/impls.h"
#include "backend/cuda/draft_tokens/impls.h"
#include "backend/cuda/embedding/impls.h"
#include "backend/cuda/experts/impls.h"
#include "backend/cuda/experts_chain/impls.h"
#include "backend/cuda/gate/impls.h"
#include "backend/cuda/linear/grouped_gate_impls.h"
#include "backend/cuda/linear/grouped_impls.h"
#include "backend/cuda/linear/impls.h"
#include "backend/cuda/norm/impls.h"
#include "backend/cuda/place_tokens/impls.h"
#include "backend/cuda/recurrent/impls.h"
#include "backend/cuda/rope_kv/impls.h"
#include "backend/cuda/sampling/impls.h"
#include "backend/cuda/streams/impls.h"

namespace sluice::cuda {

void RegisterCudaOps(ops::OpTable& table) {
  RegisterEmbedding(table);
  RegisterPlaceTokens(table);
  RegisterDraftTokens(table);
  RegisterNorm(table);
  RegisterLinear(table);
  RegisterDenseChain(table);
  RegisterExperts(table);
  RegisterExpertsChain(table);
  RegisterGroupedLinear(table);
  RegisterGroupedGate(table);
  RegisterRopeKv(table);
  RegisterAttention(table);
  RegisterLatentAttention(table);
  RegisterIndex(table);
  RegisterActivation(table);
  RegisterRecurrent(table);
  RegisterGate(table);
  RegisterStreams(table);
  RegisterSampling(table);
}

}  // namespace sluice::cuda
