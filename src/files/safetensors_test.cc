#include "files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using testing::ByteWriter;
using ::testing::HasSubstr;
using testing::SafetensorsBytes;
using testing::TempFolder;

std::string SafetensorsError(std::span<const std::byte> bytes) {
  auto tensors = ParseSafetensors(bytes);
  if (tensors.ok()) return "no error";
  EXPECT_EQ(tensors.status().code(), StatusCode::kBadModel);
  return tensors.status().message();
}
std::string SafetensorsError(std::string_view header, size_t data_bytes) {
  return SafetensorsError(SafetensorsBytes(header, data_bytes));
}
std::string OpenError(const TempFolder& folder) {
  auto opened = OpenSafetensors(folder.path());
  return opened.ok() ? "no error" : opened.status().message();
}

constexpr char kTwo[] = R"({"__metadata__":{"format":"pt"},)"
                        R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                        R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";

TEST(SafetensorsTest, ReadsTensorsByOffset) {
  auto bytes = SafetensorsBytes(kTwo, 16);
  bytes[bytes.size() - 12] = std::byte{7};
  const auto tensors = ParseSafetensors(bytes).value();
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].dtype, DType::kF32);
  EXPECT_TRUE(tensors[0].shape.empty());
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensors[1].data.size(), 12u);
  EXPECT_EQ(tensors[1].data[0], std::byte{7});
}

TEST(SafetensorsTest, ReadsEveryDType) {
  const std::pair<const char*, int> types[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
                                               {"I8", 1},  {"U8", 1},  {"I32", 4},  {"I64", 8}};
  for (const auto& [name, bytes] : types) {
    const std::string header = std::string(R"({"t":{"dtype":")") + name +
                               R"(","shape":[3],"data_offsets":[0,)" + std::to_string(3 * bytes) +
                               "]}}";
    const auto file = SafetensorsBytes(header, static_cast<size_t>(3 * bytes));
    const auto tensors = ParseSafetensors(file);
    ASSERT_TRUE(tensors.ok()) << tensors.status().message();
    EXPECT_EQ(Name(tensors->front().dtype), name);
  }
  EXPECT_THAT(SafetensorsError(R"({"t":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8),
              HasSubstr("\"F64\""));
}

TEST(SafetensorsTest, EveryTruncationIsAnError) {
  const auto whole = SafetensorsBytes(kTwo, 16);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(SafetensorsError(std::span(whole).first(size)), "no error") << size;
  }
  EXPECT_EQ(SafetensorsError(whole), "no error");
}

TEST(SafetensorsTest, RefusesBadHeaders) {
  for (uint64_t size : {UINT64_MAX, UINT64_MAX - 7, uint64_t{1} << 40, uint64_t{100}}) {
    EXPECT_THAT(SafetensorsError(ByteWriter().Put(size).Text("{}").bytes()),
                HasSubstr("header claims"));
  }
  EXPECT_THAT(SafetensorsError("", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(SafetensorsError("[]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(SafetensorsError(std::string(100000, '['), 0), HasSubstr("nested deeper"));
  EXPECT_THAT(SafetensorsError(R"({"a":1,"a":2})", 0), HasSubstr("twice"));
  EXPECT_THAT(SafetensorsError("{\"a\xff\":1}", 0), HasSubstr("not valid JSON"));
}

// Hours, if each tensor were compared with all before it.
TEST(SafetensorsTest, ManyTensorsTakeLinearTime) {
  constexpr size_t kTensors = 150'000;
  std::string header = "{";
  for (size_t i = 0; i < kTensors; ++i) {
    header += StrCat(i > 0 ? "," : "", "\"t", i, R"(":{"dtype":"U8","shape":[1],"data_offsets":[)",
                     i, ",", i + 1, "]}");
  }
  header += "}";
  const auto bytes = SafetensorsBytes(header, kTensors);
  const auto tensors = ParseSafetensors(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_EQ(tensors->size(), kTensors);
  EXPECT_THAT(SafetensorsError(header, kTensors + 1), HasSubstr("150001 bytes of data"));
}

TEST(SafetensorsTest, RefusesMalformedTensors) {
  const auto error = [](const std::string& entry, size_t data_bytes) {
    return SafetensorsError("{\"t\":" + entry + "}", data_bytes);
  };
  EXPECT_THAT(error("1", 0), HasSubstr("object"));
  EXPECT_THAT(error(R"({"shape":[1],"data_offsets":[0,4]})", 4), HasSubstr("dtype"));
  EXPECT_THAT(error(R"({"dtype":1,"shape":[1],"data_offsets":[0,4]})", 4), HasSubstr("dtype"));
  const auto shape = [&](const std::string& dims) {
    return error(R"({"dtype":"F32","shape":)" + dims + R"(,"data_offsets":[0,4]})", 4);
  };
  EXPECT_EQ(shape("[1,1,1,1]"), "no error");
  EXPECT_THAT(shape("1"), HasSubstr("shape"));
  EXPECT_THAT(shape("[1,1,1,1,1]"), HasSubstr("at most 4"));
  EXPECT_THAT(shape("[0]"), HasSubstr("dimension 0"));
  EXPECT_THAT(shape("[-1]"), HasSubstr("dimension -1"));
  EXPECT_THAT(shape("[1.0]"), HasSubstr("dimension 1.0"));
  EXPECT_THAT(shape("[18446744073709551616]"), HasSubstr("dimension"));
  EXPECT_THAT(shape("[9223372036854775808]"), HasSubstr("dimension"));
  EXPECT_THAT(shape("[4611686018427387905]"), HasSubstr("64 bits"));
  EXPECT_THAT(shape("[4294967296,4294967296]"), HasSubstr("64 bits"));
  EXPECT_THAT(shape("[2]"), HasSubstr("ask for 8"));
  const auto offsets = [&](const std::string& range) {
    return error(R"({"dtype":"F32","shape":[1],"data_offsets":)" + range + "}", 4);
  };
  EXPECT_THAT(offsets("[0]"), HasSubstr("data_offsets"));
  EXPECT_THAT(offsets("[-4,0]"), HasSubstr("data_offsets"));
  EXPECT_THAT(offsets("[4,0]"), HasSubstr("lies at bytes 4 to 0"));
  EXPECT_THAT(offsets("[1,5]"), HasSubstr("truncated"));
  EXPECT_THAT(offsets("[18446744073709551612,18446744073709551615]"), HasSubstr("truncated"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})", 5),
              HasSubstr("5 bytes of data"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4],"data_offsets":[1,5]})", 5),
              HasSubstr("begins at byte 1"));
}

TEST(SafetensorsTest, RefusesOverlapsAndHoles) {
  const auto error = [](const char* second) {
    return SafetensorsError(
        std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)") +
            R"("b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}",
        9);
  };
  EXPECT_THAT(error("[0,4]"), HasSubstr("begins at byte 0"));
  EXPECT_THAT(error("[3,7]"), HasSubstr("begins at byte 3"));
  EXPECT_THAT(error("[5,9]"), HasSubstr("begins at byte 5"));
}

// A folder of two shards with their index, `weight_map` being its text.
void WriteShards(const TempFolder& folder, const std::string& weight_map) {
  const auto shard = [](const std::string& name) {
    return SafetensorsBytes(
        R"({")" + name + R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
  };
  folder.Write("one.safetensors", shard("a"));
  folder.Write("two.safetensors", shard("b"));
  folder.Write("model.safetensors.index.json", "{\"weight_map\":" + weight_map + "}");
}

TEST(SafetensorsTest, OpensShardsThroughTheIndex) {
  TempFolder folder;
  WriteShards(folder, R"({"a":"one.safetensors","b":"two.safetensors"})");
  const auto opened = OpenSafetensors(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const TensorSource& source = **opened;
  EXPECT_EQ(source.tensors().size(), 2u);
  ASSERT_NE(source.Find("b"), nullptr);
  EXPECT_EQ(source.Find("b")->data.size(), 4u);
  source.Release(*source.Find("b"));
  EXPECT_EQ(source.Find("b")->data[3], std::byte{0});
  const std::shared_ptr<std::byte> own = source.MapPrivately(*source.Find("b"));
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(std::memcmp(own.get(), source.Find("b")->data.data(), 4), 0);
  EXPECT_EQ(source.Find("c"), nullptr);
}

TEST(SafetensorsTest, RefusesABadIndex) {
  const auto error = [](const std::string& weight_map) {
    TempFolder folder;
    WriteShards(folder, weight_map);
    return OpenError(folder);
  };
  EXPECT_THAT(error("{}"), HasSubstr("weight_map"));
  EXPECT_THAT(error("[]"), HasSubstr("weight_map"));
  EXPECT_THAT(error(R"({"a":1})"), HasSubstr("no shard's name"));
  EXPECT_THAT(error(R"({"a":"three.safetensors"})"), HasSubstr("which is missing"));
  EXPECT_THAT(error(R"({"b":"one.safetensors"})"), HasSubstr("does not hold it"));
  for (const char* name :
       {"../one.safetensors", "/etc/one.safetensors", "sub/one.safetensors", "one.bin",
        ".safetensors", "..safetensors", "", "one.safetensors\\u0000.safetensors"}) {
    EXPECT_THAT(error(std::string(R"({"a":")") + name + "\"}"), HasSubstr("plain file name"))
        << name;
  }
}

TEST(SafetensorsTest, RefusesANameInTwoShards) {
  TempFolder folder;
  WriteShards(folder, R"({"a":"one.safetensors","b":"two.safetensors"})");
  folder.Write("two.safetensors",
               SafetensorsBytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                2));
  EXPECT_THAT(OpenError(folder), HasSubstr("\"a\" stands in two shards"));
}

TEST(SafetensorsTest, FindsTheOnlyFileOfAFolder) {
  TempFolder folder;
  EXPECT_EQ(OpenSafetensors(folder.path()).status().code(), StatusCode::kNotFound);
  folder.Write("weights.safetensors", SafetensorsBytes(kTwo, 16));
  EXPECT_EQ(OpenError(folder), "no error");
  folder.Write("more.safetensors", SafetensorsBytes(kTwo, 16));
  EXPECT_THAT(OpenError(folder), HasSubstr("several"));
  folder.Write("model.safetensors", SafetensorsBytes(kTwo, 15));
  EXPECT_THAT(OpenError(folder), HasSubstr("model.safetensors: "));
  EXPECT_EQ(OpenSafetensors("/nonexistent").status().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace sluice::files
