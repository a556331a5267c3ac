#include "sluice/model_need.h"

#include "engine/request_check.h"
#include "exec/draft_files.h"
#include "exec/open_runner.h"
#include "files/model_files.h"

namespace sluice {

Result<ModelNeed> NeedOf(const EngineOptions& options) {
  SLUICE_RETURN_IF_ERROR(engine::CheckOptions(options));
  SLUICE_ASSIGN_OR_RETURN(const std::string path, files::ResolveModel(options.model));
  SLUICE_ASSIGN_OR_RETURN(const files::ModelFiles files, files::OpenModel(path));
  SLUICE_ASSIGN_OR_RETURN(const exec::DraftFiles draft, exec::OpenDraft(files, options));
  SLUICE_ASSIGN_OR_RETURN(const exec::MemoryNeed need, exec::PlanRunner(files, draft, options));
  ModelNeed told;
  told.model_name =
      options.served_model_name.empty() ? files::ModelName(files) : options.served_model_name;
  told.weight_bytes = static_cast<int64_t>(need.weight_bytes);
  told.kv_bytes = static_cast<int64_t>(need.kv_bytes);
  told.step_bytes = static_cast<int64_t>(need.step_bytes);
  return told;
}

}  // namespace sluice
