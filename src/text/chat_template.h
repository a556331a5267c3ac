// Chat templates: Jinja as transformers runs it, interpreted with limits. A ChatTemplate is
// immutable after Parse; any thread may render with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "sluice/status.h"
#include "text/jinja/limits.h"

namespace sluice::text {

namespace jinja {
struct ParsedTemplate;
}

class ChatTemplate {
 public:
  // kUnprocessable with line and reason when the template does not parse.
  static Result<std::shared_ptr<const ChatTemplate>> Parse(std::string source);

  // `context` is the object of template variables: messages, tools (absent means none),
  // add_generation_prompt, bos_token, eos_token, ... `now` is local time "YYYY-MM-DDTHH:MM:SS" for
  // strftime_now, or absent for the clock. kInvalidArgument when the template refuses the
  // conversation (raise_exception, undefined access, wrong types) or a limit is passed; kCancelled
  // soon after `limits.cancelled` has become true.
  Result<std::string> Render(const OrderedJson& context, std::optional<std::string> now,
                             const RenderLimits& limits = {}) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::ParsedTemplate> parsed)
      : parsed_(std::move(parsed)) {}

  const std::shared_ptr<const jinja::ParsedTemplate> parsed_;
};

}  // namespace sluice::text
