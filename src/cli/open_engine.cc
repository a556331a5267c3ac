#include "cli/open_engine.h"

#include <unistd.h>

#include "base/log_options.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::cli {
namespace {

// "loading SmolLM2.gguf 37 %" on one line of a terminal.
class LoadProgress {
 public:
  explicit LoadProgress(const std::string& model)
      : model_(Visible(model)), terminal_(isatty(STDERR_FILENO) != 0) {}

  void Show(int64_t done, int64_t total) {
    const int percent = total > 0 ? static_cast<int>(done * 100 / total) : 100;
    if (!terminal_ || percent == shown_) return;
    shown_ = percent;
    ShowProgress(StrCat("loading ", model_, " ", percent, " %"));
  }
  void End() {
    if (shown_ >= 0) ShowProgress("");
  }

 private:
  const std::string model_;
  const bool terminal_;
  int shown_ = -1;
};

}  // namespace

Result<std::unique_ptr<Engine>> OpenEngine(const EngineOptions& options) {
  LoadProgress progress(options.model);
  auto engine =
      Engine::Open(options, [&](int64_t done, int64_t total) { progress.Show(done, total); });
  progress.End();
  return engine;
}

std::string DeviceOf(const EngineInfo& info) {
  return StrCat(info.device_id, " (", info.device, ")");
}

}  // namespace sluice::cli
