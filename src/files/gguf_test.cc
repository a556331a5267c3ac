#include "files/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "files/mapped_file.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using testing::ByteWriter;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TempFolder;
using testing::TinyGguf;

std::string GgufError(const std::vector<std::byte>& bytes) {
  auto file = GgufFile::FromMemory(bytes, "tiny.gguf");
  if (file.ok()) return "no error";
  EXPECT_EQ(file.status().code(), StatusCode::kBadModel);
  return file.status().message();
}
std::string GgufError(const GgufWriter& file) { return GgufError(file.Bytes()); }

GgufWriter OneTensor() {
  GgufWriter file;
  file.Add("a", DType::kF32, {2, 8});
  return file;
}

TEST(GgufTest, ReadsEveryMetadataType) {
  GgufWriter writer;
  writer.Scalar<uint8_t>("u8", 0, 200)
      .Scalar<int8_t>("i8", 1, -100)
      .Scalar<uint16_t>("u16", 2, 60000)
      .Scalar<int16_t>("i16", 3, -30000)
      .Scalar<uint32_t>("u32", 4, 4000000000u)
      .Scalar<int32_t>("i32", 5, -2000000000)
      .Scalar<float>("f32", 6, 0.5f)
      .Bool("yes", true)
      .String("text", "caf\xc3\xa9")
      .Scalar<uint64_t>("u64", 10, UINT64_MAX)
      .Scalar<int64_t>("i64", 11, INT64_MIN)
      .Scalar<double>("f64", 12, 1e300)
      .Array<int16_t>("ints", 3, {-1, 2})
      .Array<float>("floats", 6, {0.25f})
      .Array<uint8_t>("bools", 7, {1, 0, 1})
      .Strings("strings", {"a", "", "bc"})
      .Array<uint32_t>("empty", 4, {});
  for (uint32_t version : {2u, 3u}) {
    writer.version = version;
    const auto bytes = writer.Bytes();
    auto opened = GgufFile::FromMemory(bytes, "tiny.gguf");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const GgufFile& file = **opened;
    EXPECT_EQ(*file.Integer("u8").value(), 200);
    EXPECT_EQ(*file.Integer("i8").value(), -100);
    EXPECT_EQ(*file.Integer("u16").value(), 60000);
    EXPECT_EQ(*file.Integer("i16").value(), -30000);
    EXPECT_EQ(*file.Integer("u32").value(), 4000000000);
    EXPECT_EQ(*file.Integer("i32").value(), -2000000000);
    EXPECT_EQ(*file.Integer("i64").value(), INT64_MIN);
    EXPECT_FALSE(file.Integer("u64").ok());
    EXPECT_EQ(*file.Number("u64").value(), 18446744073709551616.0);
    EXPECT_EQ(*file.Number("f32").value(), 0.5);
    EXPECT_EQ(*file.Number("f64").value(), 1e300);
    EXPECT_EQ(*file.Number("i8").value(), -100.0);
    EXPECT_TRUE(*file.Boolean("yes").value());
    EXPECT_EQ(*file.String("text").value(), "caf\xc3\xa9");
    const auto array = [&](const char* key) {
      return std::get<GgufValue::Array>(file.metadata().find(key)->second.value);
    };
    EXPECT_EQ(array("ints"), GgufValue::Array(std::vector<int64_t>{-1, 2}));
    EXPECT_EQ(array("floats"), GgufValue::Array(std::vector<double>{0.25}));
    EXPECT_EQ(array("bools"), GgufValue::Array(std::vector<bool>{true, false, true}));
    EXPECT_EQ(array("strings"), GgufValue::Array(std::vector<std::string_view>{"a", "", "bc"}));
    EXPECT_EQ(array("empty"), GgufValue::Array(std::vector<int64_t>{}));
  }
}

TEST(GgufTest, LookUpsTellAbsentFromWrongType) {
  const auto bytes = GgufWriter().U32("n", 1).String("s", "x").Bytes();
  const auto file = GgufFile::FromMemory(bytes, "tiny.gguf").value();
  EXPECT_FALSE(file->Integer("absent").value().has_value());
  EXPECT_FALSE(file->String("absent").value().has_value());
  EXPECT_EQ(file->Integer("s").status().code(), StatusCode::kBadModel);
  EXPECT_FALSE(file->Number("s").ok());
  EXPECT_FALSE(file->Boolean("n").ok());
  EXPECT_THAT(file->String("n").status().message(), HasSubstr("\"n\" is not a string"));
}

TEST(GgufTest, ReadsTensorsOfEveryType) {
  GgufWriter writer;
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::kU8 || dtype == DType::kF8E4M3) continue;  // not in GGUF
    types.push_back(dtype);
    writer.Add(std::string("t.") + std::string(Name(dtype)), dtype, {3, 256});
  }
  const auto bytes = writer.Bytes();
  auto opened = GgufFile::FromMemory(bytes, "tiny.gguf");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const GgufFile& file = **opened;
  ASSERT_EQ(file.tensors().size(), types.size());
  for (DType dtype : types) {
    const FileTensor* tensor = file.Find(std::string("t.") + std::string(Name(dtype)));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->dtype, dtype);
    EXPECT_EQ(tensor->shape, (std::vector<int64_t>{3, 256}));
    EXPECT_EQ(tensor->data.size(), 3 * RowBytes(dtype, 256));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data.data()) % 8, 0u);
  }
  EXPECT_EQ(file.Find("absent"), nullptr);
}

TEST(GgufTest, ShapeIsOutermostFirstAndDataIsTheTensorsOwn) {
  const std::vector<float> values = {1, 2, 3};
  GgufWriter writer = OneTensor();
  writer.tensors[0].dims = {8, 2};
  writer.AddFloats("b", values);
  TempFolder folder;
  const auto file = GgufFile::Open(folder.Write("x.gguf", writer.Bytes())).value();
  EXPECT_EQ(file->Find("a")->shape, (std::vector<int64_t>{2, 8}));
  const FileTensor* tensor = file->Find("b");
  ASSERT_EQ(tensor->data.size(), 12u);
  EXPECT_EQ(std::memcmp(tensor->data.data(), values.data(), 12), 0);
  file->Release(*tensor);
  EXPECT_EQ(std::memcmp(tensor->data.data(), values.data(), 12), 0);
}

TEST(GgufTest, APrivateMappingOutlivesTheFileAndKeepsItsWritesToItself) {
  const std::vector<float> values = {1, 2, 3};
  GgufWriter writer = OneTensor();
  writer.AddFloats("b", values);
  TempFolder folder;
  auto file = GgufFile::Open(folder.Write("x.gguf", writer.Bytes())).value();
  const FileTensor* tensor = file->Find("b");
  const std::shared_ptr<std::byte> own = file->MapPrivately(*tensor);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(std::memcmp(own.get(), values.data(), 12), 0);
  std::memset(own.get(), 0, 4);
  EXPECT_EQ(std::memcmp(tensor->data.data(), values.data(), 12), 0);
  file.reset();
  EXPECT_EQ(std::memcmp(own.get() + 4, values.data() + 1, 8), 0);
}

TEST(GgufTest, BytesOfTheCallerAreNotMapped) {
  const auto bytes = OneTensor().Bytes();
  const auto file = GgufFile::FromMemory(bytes, "tiny.gguf").value();
  EXPECT_EQ(file->MapPrivately(file->tensors().front()), nullptr);
}

TEST(GgufTest, HonoursTheAlignmentKey) {
  GgufWriter writer;
  writer.alignment = 64;
  writer.U32("general.alignment", 64).Add("a", DType::kF32, {1}).Add("b", DType::kF32, {1});
  writer.data[64] = std::byte{7};
  const auto bytes = writer.Bytes();
  const auto file = GgufFile::FromMemory(bytes, "tiny.gguf").value();
  EXPECT_EQ(file->Find("b")->data[0], std::byte{7});
}

TEST(GgufTest, EveryTruncationIsAnErrorOrHoldsWholeTensors) {
  const auto whole = TinyGguf("llama").Strings("tokenizer.ggml.tokens", {"a", "bc"}).Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<long>(size));
    EXPECT_NE(GgufError(part), "no error") << size;
  }
}

TEST(GgufTest, RefusesWhatIsNotGguf) {
  GgufWriter file = OneTensor();
  file.magic = "GGML";
  EXPECT_THAT(GgufError(file), HasSubstr("not a GGUF file"));
  file = OneTensor();
  file.version = 1;
  EXPECT_THAT(GgufError(file), HasSubstr("version 1"));
  file.version = 0x03000000;
  EXPECT_THAT(GgufError(file), HasSubstr("big-endian"));
  EXPECT_THAT(GgufError(std::vector<std::byte>{}), HasSubstr("truncated"));
}

TEST(GgufTest, RefusesAbsurdCounts) {
  GgufWriter file = OneTensor();
  file.extra_tensors = INT64_MAX;
  EXPECT_THAT(GgufError(file), HasSubstr("limit"));
  file.extra_tensors = 1000;
  EXPECT_THAT(GgufError(file), HasSubstr("cannot hold"));
  file.extra_tensors = 0;
  file.extra_keys = -1;
  EXPECT_THAT(GgufError(file), HasSubstr("limit"));
  file.extra_keys = 1000;
  EXPECT_THAT(GgufError(file), HasSubstr("cannot hold"));
}

TEST(GgufTest, RefusesMalformedMetadata) {
  EXPECT_THAT(GgufError(GgufWriter().U32("a", 1).U32("a", 2)), HasSubstr("\"a\" stands twice"));
  EXPECT_THAT(GgufError(GgufWriter().U32("", 1)), HasSubstr("empty name"));
  EXPECT_THAT(GgufError(GgufWriter().Scalar<uint8_t>("b", 7, 2)), HasSubstr("bool of value 2"));
  EXPECT_THAT(GgufError(GgufWriter().Scalar<uint64_t>("t", 13, 0)), HasSubstr("value type 13"));
  EXPECT_THAT(GgufError(GgufWriter().Scalar<uint64_t>("t", 0xffffffff, 0)),
              HasSubstr("value type"));
  EXPECT_THAT(GgufError(GgufWriter().Array<uint8_t>("b", 7, {0, 9})), HasSubstr("0 and 1"));
  EXPECT_THAT(GgufError(GgufWriter().Array<uint64_t>("n", 10, {UINT64_MAX})), HasSubstr("not fit"));
  EXPECT_THAT(GgufError(GgufWriter().Array<uint32_t>("n", 99, {1})), HasSubstr("value type 99"));
  // An array of arrays: a parser that recursed would be at the file's mercy.
  EXPECT_THAT(GgufError(GgufWriter().Array<uint64_t>("n", 9, {1})), HasSubstr("nested"));
  // Lengths that overflow when a header's size or an element's width is added.
  for (uint64_t length : {UINT64_MAX, UINT64_MAX - 7, uint64_t{1} << 63, uint64_t{1} << 40}) {
    GgufWriter file;
    file.keys.push_back({"s", 8, ByteWriter().Put(length).bytes()});
    EXPECT_THAT(GgufError(file), HasSubstr("limit"));
    for (uint32_t type : {0u, 8u, 10u, 12u}) {
      file.keys = {{"n", 9, ByteWriter().Put(type).Put(length).bytes()}};
      EXPECT_THAT(GgufError(file), HasSubstr("limit"));
    }
  }
  GgufWriter file;
  file.keys = {{"n", 9, ByteWriter().Put<uint32_t>(8).Put<uint64_t>(1 << 20).bytes()}};
  EXPECT_THAT(GgufError(file), HasSubstr("truncated"));
}

// Each array is within the limit, all of them together are not.
TEST(GgufTest, ArraysShareOneLimit) {
  GgufWriter file;
  file.Array<uint8_t>("a", 0, std::vector<uint8_t>(1000));
  const auto claim = ByteWriter().Put<uint32_t>(0).Put<uint64_t>((1u << 24) - 999).bytes();
  file.keys.push_back({"b", 9, claim});
  EXPECT_THAT(GgufError(file), HasSubstr("limit of all arrays together"));
}

TEST(GgufTest, RefusesBadAlignment) {
  for (uint32_t alignment : {0u, 1u, 4u, 24u, 0x80000000u}) {
    EXPECT_THAT(GgufError(GgufWriter().U32("general.alignment", alignment)),
                HasSubstr("power of two"));
  }
  EXPECT_THAT(GgufError(GgufWriter().Scalar<int32_t>("general.alignment", 5, -32)),
              HasSubstr("power of two"));
  EXPECT_THAT(GgufError(GgufWriter().String("general.alignment", "32")), HasSubstr("integer"));
}

TEST(GgufTest, RefusesMalformedTensors) {
  const auto spoil = [](auto change) {
    GgufWriter file = OneTensor();
    file.Add("b", DType::kF32, {8});
    change(file.tensors[1]);
    return GgufError(file);
  };
  using Tensor = GgufWriter::Tensor;
  EXPECT_THAT(spoil([](Tensor& t) { t.name = "a"; }), HasSubstr("\"a\" stands twice"));
  EXPECT_THAT(spoil([](Tensor& t) { t.name = ""; }), HasSubstr("empty name"));
  EXPECT_THAT(spoil([](Tensor& t) { t.name = std::string(300, 'x'); }), HasSubstr("limit"));
  EXPECT_THAT(spoil([](Tensor& t) { t.dims = {}; }), HasSubstr("0 dimensions"));
  EXPECT_THAT(spoil([](Tensor& t) { t.dims = {1, 1, 1, 1, 1}; }), HasSubstr("5 dimensions"));
  EXPECT_THAT(spoil([](Tensor& t) { t.dims = {0}; }), HasSubstr("dimension of 0"));
  EXPECT_THAT(spoil([](Tensor& t) { t.dims = {UINT64_MAX}; }), HasSubstr("dimension of 184"));
  EXPECT_THAT(spoil([](Tensor& t) { t.dims = {1ull << 32, 1ull << 32}; }), HasSubstr("63 bits"));
  // The element count fits, the byte count does not; and sizes that wrap to something small.
  EXPECT_THAT(spoil([](Tensor& t) { t.dims = {1ull << 62}; }), HasSubstr("64 bits"));
  EXPECT_THAT(spoil([](Tensor& t) { t.dims = {(1ull << 62) + 1}; }), HasSubstr("64 bits"));
  EXPECT_THAT(spoil([](Tensor& t) { t.type = 9; }), HasSubstr("ggml type 9"));
  EXPECT_THAT(spoil([](Tensor& t) { t.type = 0xffffffff; }), HasSubstr("not supported"));
  EXPECT_THAT(spoil([](Tensor& t) { t.type = 8; }), HasSubstr("block of 32"));
  EXPECT_THAT(spoil([](Tensor& t) { t.offset += 8; }), HasSubstr("multiple of the alignment"));
  EXPECT_THAT(spoil([](Tensor& t) { t.offset += 32; }), HasSubstr("truncated"));
  EXPECT_THAT(spoil([](Tensor& t) { t.offset = UINT64_MAX - 31; }), HasSubstr("truncated"));
  EXPECT_THAT(spoil([](Tensor& t) { t.dims = {1ull << 40}; }), HasSubstr("truncated"));
  // 2^64 - 2 bytes behind an offset of 64: the sum is a place within the file.
  EXPECT_THAT(spoil([](Tensor& t) {
                t.dims = {INT64_MAX};
                t.type = testing::GgmlType(DType::kF16);
              }),
              HasSubstr("truncated"));
  EXPECT_THAT(spoil([](Tensor& t) { t.offset = 0; }), HasSubstr("overlap"));
  EXPECT_THAT(spoil([](Tensor& t) { t.offset = 32; }), HasSubstr("overlap"));
}

TEST(GgufTest, MessagesShowNoRawBytesOfTheFile) {
  EXPECT_THAT(GgufError(GgufWriter().U32("\x1b[2J\n", 1).U32("\x1b[2J\n", 1)),
              HasSubstr("\"\\x1b[2J\\x0a\" stands twice"));
}

TEST(GgufTest, OpenTellsAbsentFromUnreadable) {
  TempFolder folder;
  const auto code = [](const std::string& path) { return GgufFile::Open(path).status().code(); };
  EXPECT_EQ(code(folder.path() + "/absent.gguf"), StatusCode::kNotFound);
  EXPECT_EQ(code(folder.path()), StatusCode::kBadModel);
  EXPECT_EQ(code(folder.Write("empty.gguf", "")), StatusCode::kBadModel);
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(code(pipe), StatusCode::kBadModel);
  EXPECT_EQ(code("/dev/null"), StatusCode::kBadModel);
  EXPECT_EQ(ReadTextFile(pipe, 10).status().code(), StatusCode::kBadModel);
  const auto status = GgufFile::Open(folder.Write("bad.gguf", "GGML0000")).status();
  EXPECT_THAT(status.message(), HasSubstr("bad.gguf: the file does not begin"));
}

}  // namespace
}  // namespace sluice::files
