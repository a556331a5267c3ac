#include "backend/xpu/ops.h"

#include "backend/xpu/activation/impls.h"
#include "backend/xpu/attention/impls.h"
#include "backend/xpu/draft_tokens/impls.h"
#include "backend/xpu/embedding/impls.h"
#include "backend/xpu/experts/impls.h"
#include "backend/xpu/gate/impls.h"
#include "backend/xpu/linear/impls.h"
#include "backend/xpu/norm/impls.h"
#include "backend/xpu/place_tokens/impls.h"
#include "backend/xpu/recurrent/impls.h"
#include "backend/xpu/rope_kv/impls.h"
#include "backend/xpu/sampling/impls.h"
#include "backend/xpu/streams/impls.h"

namespace sluice::xpu {

void RegisterXpuOps(ops::OpTable& table) {
  RegisterEmbedding(table);
  RegisterPlaceTokens(table);
  RegisterDraftTokens(table);
  RegisterNorm(table);
  RegisterLinear(table);
  RegisterRopeKv(table);
  RegisterAttention(table);
  RegisterActivation(table);
  RegisterRecurrent(table);
  RegisterGate(table);
  RegisterStreams(table);
  RegisterExperts(table);
  RegisterSampling(table);
}

}  // namespace sluice::xpu
