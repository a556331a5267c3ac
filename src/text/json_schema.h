// JSON schemas of the drafts 2019-09 and 2020-12, as far as answers can be held to them. Pure
// functions.
//
// The library that compiles schemas reads one keyword of several beside each other and leaves out
// others. RewriteSchema checks every keyword that asserts something, and gives an equal schema in
// which each part has one type, or values, or alternatives: what the library reads rightly.
#pragma once

#include <string_view>

#include "base/json.h"
#include "sluice/status.h"

namespace sluice::text {

inline constexpr int kSchemaDepthMax = 64;
inline constexpr size_t kSchemaValuesMax = 16'384;  // of an enum's and all other parts' JSON
// Parts of the rewritten schema, and alternatives of one part.
inline constexpr size_t kSchemaPartsMax = 4096;
inline constexpr size_t kSchemaFormsMax = 64;

// What a text in the rewritten schema begins with that stands for the number behind it (kNumberMark
// of text/grammar_compiler/frames.h, which fuzz targets are built without).
inline constexpr std::string_view kNumberText = "\xEF\xB7\x90";

// A member of a rewritten schema's root: some part is of a form that ReadExtendedSchema of
// text/grammar_compiler/written_arguments.h reads, and the library does not.
inline constexpr const char* kExtendedMember = "extended";

// `closed`: an object with `properties` holds no others, though the schema permits them.
// kInvalidArgument names a keyword that is not supported, and its place as a JSON pointer.
Result<OrderedJson> RewriteSchema(std::string_view schema, bool closed);

}  // namespace sluice::text
