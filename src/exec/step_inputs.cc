#include "exec/step_inputs.h"

#include "exec/carver.h"
#include "ops/attention.h"
#include "ops/sample_row.h"

namespace sluice::exec {

size_t CarveInputs(const device::View& view, const InputShape& shape, StepInputs* inputs) {
  Carver carver(view);
  inputs->token_ids = carver.Take({shape.tokens});
  inputs->query_start = carver.Take({shape.sequences + 1});
  inputs->first = carver.Take({shape.sequences});
  inputs->unsure = carver.Take({shape.sequences});
  inputs->slots = carver.Take({shape.sequences});
  inputs->logits_rows = carver.Take({shape.rows});
  if (shape.types) inputs->token_types = carver.Take({shape.tokens});
  if (shape.paths) inputs->paths = carver.Take({shape.tokens, ops::kPathNumbers});
  if (shape.drafts >= 0) {
    inputs->next = carver.Take({shape.sequences});
    inputs->drafting = carver.Take({shape.drafts});
    inputs->draft_start = carver.Take({shape.drafts + 1});
    inputs->draft_slots = carver.Take({shape.drafts});
    inputs->draft_ids = carver.Take({shape.drafts});
    if (shape.draws)
      inputs->draft_rows = carver.Take({shape.drafts, int64_t{sizeof(ops::SampleRow)}}, DType::kU8);
  }
  inputs->groups.resize(shape.told.size());
  for (size_t g = 0; g < shape.told.size(); ++g) {
    inputs->groups[g].told_start = carver.Take({shape.sequences + 1});
    inputs->groups[g].told_first = carver.Take({shape.sequences});
    inputs->groups[g].told = carver.Take({shape.told[g]});
  }
  return carver.used();
}

size_t CarvePlaced(const device::View& view, const InputShape& shape, const StepInputs& inputs,
                   model::DeviceBatch* batch) {
  Carver carver(view);
  batch->token_ids = inputs.token_ids;
  batch->query_start = inputs.query_start;
  batch->logits_rows = inputs.logits_rows;
  batch->token_types = inputs.token_types;
  batch->paths = inputs.paths;
  batch->positions = carver.Take({shape.tokens});
  batch->context = carver.Take({shape.sequences});
  batch->groups.resize(shape.table_widths.size());
  for (size_t g = 0; g < shape.table_widths.size(); ++g) {
    batch->groups[g].slots = carver.Take({shape.tokens});
    batch->groups[g].block_table = carver.Take({shape.sequences, shape.table_widths[g]});
  }
  return carver.used();
}

std::vector<int64_t> TableWidths(std::span<const batch::KvGroup> groups, int64_t positions) {
  std::vector<int64_t> widths;
  for (const batch::KvGroup& group : groups) {
    widths.push_back(batch::TableWidth(group, positions));
  }
  return widths;
}

}  // namespace sluice::exec
