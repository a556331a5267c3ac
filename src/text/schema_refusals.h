// The first thing that a schema is refused for. Not thread-safe.
#pragma once

#include <string_view>

#include "sluice/status.h"
#include "text/schema_document.h"
#include "text/schema_forms.h"

namespace sluice::text {

struct SchemaRefusals {
  const SchemaDocument& document;
  Status status;  // all else is of no use once it is not ok

  void Refuse(const SchemaForm& form, size_t member, std::string_view keyword,
              std::string_view why) {
    if (!status.ok()) return;
    status = RefuseKeyword(keyword, document.PlaceOf(*form.members[member].schema), why);
  }
};

}  // namespace sluice::text
