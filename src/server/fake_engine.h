// An Engine for tests: it has no model, keeps what is submitted, and says what the test tells it
// to.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sluice/engine.h"

namespace sluice::server {

class FakeEngine : public Engine {
 public:
  struct Submitted {
    Request request;
    Sink sink;
  };

  Result<std::vector<int32_t>> Tokenize(const std::string& text, bool, bool,
                                        const std::atomic<bool>* given_up) const override {
    SLUICE_RETURN_IF_ERROR(BeginText(given_up));
    return std::vector<int32_t>(text.begin(), text.end());
  }
  Result<std::string> Detokenize(const std::vector<int32_t>& ids, bool,
                                 const std::atomic<bool>* given_up) const override {
    SLUICE_RETURN_IF_ERROR(BeginText(given_up));
    return std::string(ids.begin(), ids.end());
  }
  Result<std::string> RenderChat(const ChatPrompt& chat, const std::string&,
                                 const std::atomic<bool>* given_up) const override {
    SLUICE_RETURN_IF_ERROR(BeginText(given_up));
    return chat.messages_json + chat.tools_json + chat.template_kwargs_json;
  }
  TokenizerInfo DescribeTokenizer() const override { return tokenizer; }
  Result<RequestId> Submit(Request request, Sink sink) override {
    if (!submit_status.ok() && submits_before_failure-- <= 0) return submit_status;
    submitted.push_back({std::move(request), std::move(sink)});
    if (on_submit) on_submit(submitted.size() - 1);
    return static_cast<RequestId>(submitted.size());
  }
  void Cancel(RequestId id) override {
    cancelled.push_back(id);
    ++cancels;
  }
  void EndThinking(RequestId id) override { thought.push_back(id); }
  EngineInfo Info() const override {
    EngineInfo info;
    info.model_name = "tiny";
    info.architecture = "llama";
    info.vocab_size = 256;
    info.backends = {"cpu"};
    info.max_model_len = max_model_len;
    info.max_queue = max_queue;
    info.max_queue_tokens = max_queue_tokens;
    info.kv_blocks = 10;
    info.kv_free_blocks = 7;
    info.fake_balance_experts = fake_balance_experts;
    info.tool_parser = tool_parser;
    info.reasoning_parser = reasoning_parser;
    info.sampling_defaults = sampling_defaults;
    info.embedding_size = embedding_size;
    return info;
  }
  EngineHealth Health() const override { return health; }
  std::string Metrics() const override { return "vllm:num_requests_running 0\n"; }
  Status Drain(double) override { return OkStatus(); }
  Result<std::string> Admin(const std::string& command) override {
    return on_admin ? on_admin(command) : std::string("{}");
  }

  // One event of the request that was submitted as number `index`.
  void Emit(size_t index, const std::string& text, FinishReason finish = FinishReason::kNone,
            bool last = false, int choice = 0) {
    TextDelta delta;
    delta.choice = choice;
    delta.text = text;
    delta.finish = finish;
    delta.last = last;
    delta.seed = 7;
    delta.usage.prompt_tokens = 3;
    delta.usage.completion_tokens = 2;
    delta.usage.accepted_tokens = 1;
    delta.usage.rejected_tokens = 3;
    delta.usage.verified_by_rejection = verified_by_rejection;
    delta.usage.synthetic_acceptance = synthetic_acceptance;
    submitted.at(index).sink(std::move(delta));
  }
  void EmitDelta(size_t index, TextDelta delta) { submitted.at(index).sink(std::move(delta)); }

  std::vector<Submitted> submitted;
  std::vector<RequestId> cancelled, thought;
  std::atomic<size_t> cancels = 0;  // of `cancelled`, for those that wait for another thread's
  TokenizerInfo tokenizer;
  std::string tool_parser = "none", reasoning_parser = "none";
  Sampling sampling_defaults;
  int embedding_size = 0;
  Status submit_status;
  int max_model_len = 64;
  // What Info says; nothing is refused for it.
  int max_queue = 1024;
  int64_t max_queue_tokens = 1 << 22;
  bool fake_balance_experts = false;
  bool verified_by_rejection = false;  // what usage says, as the next
  double synthetic_acceptance = 0.0;
  std::atomic<int> submits_before_failure = 0;
  std::function<void(size_t)> on_submit;  // runs within Submit
  // Runs within text work, which the server gives up by `given_up`.
  std::function<void(const std::atomic<bool>& given_up)> on_text;
  std::function<Result<std::string>(const std::string&)> on_admin;
  EngineHealth health{true, true, ""};

 private:
  Status BeginText(const std::atomic<bool>* given_up) const {
    if (on_text) on_text(*given_up);
    return *given_up ? Status(StatusCode::kCancelled, "given up") : OkStatus();
  }
};

}  // namespace sluice::server
