// The tokenizer and the chat template of a model, as the public header has them. Immutable; any
// thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "files/model_files.h"
#include "sluice/engine.h"
#include "text/chat_template.h"
#include "text/history_style.h"
#include "text/tokenizer.h"

namespace sluice::engine {

class TextModelImpl : public TextModel {
 public:
  // `files` gives its tokenizer and template away.
  static Result<std::unique_ptr<TextModelImpl>> Make(files::ModelFiles files);

  Result<std::vector<int32_t>> Tokenize(const std::string& text, bool add_special,
                                        bool parse_special,
                                        const std::atomic<bool>* cancelled) const override;
  Result<std::string> Detokenize(const std::vector<int32_t>& ids, bool skip_special,
                                 const std::atomic<bool>* cancelled) const override;
  Result<std::string> RenderChat(const ChatPrompt& chat, const std::string& now,
                                 const std::atomic<bool>* cancelled) const override;
  TokenizerInfo DescribeTokenizer() const override;

  // kInvalidArgument where Detokenize would give more than a server's request may make.
  Status CheckTextOf(const std::vector<int32_t>& ids, bool skip_special) const;
  // As RenderChat, for a conversation that is to be answered: kInvalidArgument when it has tools
  // that the template leaves out, since the model would never hear of them. kCancelled soon
  // after `cancelled` has become true.
  Result<std::string> RenderPrompt(const ChatPrompt& chat, const std::string& now,
                                   const std::atomic<bool>* cancelled = nullptr) const;
  // Token ids of any prompt. kTooLarge for one that leaves no room for its answer in
  // `tokens_max` tokens; before any work on a text where its bytes tell. kCancelled soon after
  // `cancelled` has become true. *second_text is where that of a pair begins.
  Result<std::vector<int32_t>> PromptIds(const Request& request, int tokens_max,
                                         const std::atomic<bool>& cancelled,
                                         int* second_text) const;
  // Of a request's prediction, which may be as long as a context.
  Result<std::vector<int32_t>> PredictionIds(const std::string& text, int tokens_max,
                                             const std::atomic<bool>& cancelled) const;
  // kTooLarge for a text whose bytes alone tell that PromptIds will find it too long.
  Status CheckLength(const Request& request, int tokens_max) const;
  // Of a request's prompt, as far as its bytes tell.
  int64_t LeastTokens(const Request& request) const;
  // Null for a bare template.
  const std::shared_ptr<const text::Tokenizer>& tokenizer() const { return tokenizer_; }
  bool has_template() const { return template_ != nullptr; }
  // False: the model comes without a tokenizer, and all is token ids.
  bool has_texts() const;
  // kInvalidArgument for a request about texts where there are none; its field is one that every
  // API has which carries such a text, or none.
  Status CheckIdsAlone(const Request& request) const;

 private:
  // What the template is rendered with.
  Result<OrderedJson> ContextOf(const ChatPrompt& chat) const;
  // `open`: the last message is, so the text ends with its own.
  Result<std::string> Render(const OrderedJson& context, bool open, const std::string& now,
                             const std::atomic<bool>* cancelled) const;
  Result<std::vector<int32_t>> TokensOf(const Request& request, int tokens_max,
                                        const std::atomic<bool>& cancelled) const;
  Result<std::vector<int32_t>> EncodePrompt(const Request& request, const std::string& text,
                                            bool add_special, int tokens_max,
                                            const std::atomic<bool>& cancelled) const;
  // Somewhat more than the first `tokens_max` tokens of a text, at most.
  Result<std::vector<int32_t>> EncodeBeginning(const std::string& text, const Request& request,
                                               int tokens_max,
                                               const std::atomic<bool>& cancelled) const;
  // The ids of the text that Request::text_tokens_max is about, which keep to it, without those
  // that the tokenizer puts around a text. REQUIRES: there is such a limit
  Result<std::vector<int32_t>> LimitedIds(const Request& request, const std::string& text,
                                          int tokens_max, const std::atomic<bool>& cancelled) const;
  // Those of a prompt that is a text. REQUIRES: as LimitedIds
  Result<std::vector<int32_t>> LimitedPrompt(const Request& request, int tokens_max,
                                             const std::atomic<bool>& cancelled) const;
  Result<std::vector<int32_t>> PairIds(const Request& request, int tokens_max,
                                       const std::atomic<bool>& cancelled, int* second_text) const;
  // The texts of a pair as JudgeIds puts them; of the document as many tokens as
  // Request::text_tokens_max has.
  Result<std::vector<int32_t>> JudgedTexts(const Request& request, int tokens_max,
                                           const text::EncodeOptions& options) const;
  // Of a pair about which the model answers yes or no.
  Result<std::vector<int32_t>> JudgeIds(const Request& request, int tokens_max,
                                        const std::atomic<bool>& cancelled) const;
  // Cuts `ids` to `tokens_max`; what the tokenizer puts behind a text stays.
  void Truncate(size_t tokens_max, const Request& request, std::vector<int32_t>* ids) const;
  Status CheckTextLength(const Request& request, const std::string& text, int tokens_max) const;
  Status TooLong(const Request& request, const std::string& what, int tokens_max) const;
  std::string SpecialText(const std::optional<int32_t>& id) const;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::string template_source_;
  std::shared_ptr<const text::ChatTemplate> template_;
  text::HistoryStyle history_;  // of the template
  int declared_length_ = 0;     // tokens; 0 in a file without weights
  bool judges_ = false;         // a model that answers yes or no
};

}  // namespace sluice::engine
