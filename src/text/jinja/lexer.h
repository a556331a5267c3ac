// Splits a template into tokens, with Jinja's rules for whitespace around tags (trim_blocks and
// lstrip_blocks are on, the last newline of the source is dropped). Any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

enum class TokenType : uint8_t {
  kData,           // text between tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,  // text: the characters meant
  kNumber,
  kOperator,  // text: the operator
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;
  Value number;  // kNumber
};

// What a kOperator token may be.
std::span<const std::string_view> Operators();

// Throws SyntaxFailure. REQUIRES: `source` is UTF-8. The last token is kEnd.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace sluice::text::jinja
