// What a request's header must be like beyond what the parser asks: rules that leave one reading of
// where the request ends and whom it is for, whatever a proxy before this server makes of it (RFC
// 9112, 3.2 and 6; RFC 9110, 5.3). Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::server {

struct HeaderField {
  std::string_view name;
  std::string_view value;  // without the space around it
};

struct HeaderView {
  std::string_view method;
  std::string_view target;
  bool http_1_0 = false;
  std::vector<HeaderField> fields;  // as sent, in that order
  bool folded = false;              // a line of it goes on in the next one
};

// Why a request is not served; its connection must then be closed, for where the next request
// begins is not known.
struct HeaderFault {
  int status = 400;
  std::string message;
};

// Whether one of these lines goes on in the next, by a space or a tab at its beginning.
bool HasFoldedLine(std::string_view lines);

std::optional<HeaderFault> CheckHeader(const HeaderView& header);

// The value of the first field of that name, whose case does not matter; empty without one.
std::string_view ValueOf(const HeaderView& header, std::string_view name);

}  // namespace sluice::server
