#include "files/hf_quantization.h"

#include <gmock/gmock.h>

namespace sluice::files {
namespace {

using ::testing::HasSubstr;

Result<std::optional<F8Quantization>> ReadQuantization(
    const std::string& quantization, const std::string& key = "quantization_config") {
  const Json json = ParseModelJson("{\"" + key + "\":" + quantization + "}", "config.json").value();
  return ReadHfQuantization(JsonFields(json));
}

F8Inputs InputsOf(const std::string& quantization) {
  const auto read = ReadQuantization(quantization);
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? (*read)->inputs : F8Inputs::kAsTheyAre;
}

std::string QuantizationError(const std::string& quantization) {
  const auto read = ReadQuantization(quantization);
  EXPECT_FALSE(read.ok()) << quantization;
  EXPECT_EQ(read.status().code(), StatusCode::kBadModel);
  return read.status().message();
}

// As llm-compressor writes a group, with `weights` and `inputs` in place of what varies.
std::string Compressed(const std::string& weights, const std::string& inputs,
                       const std::string& more = "") {
  return R"({"quant_method":"compressed-tensors","format":"float-quantized","quantization_status":
    "compressed","ignore":["lm_head","re:.*gate$"],"kv_cache_scheme":null,"config_groups":{
    "group_0":{"targets":["Linear"],"output_activations":null,"weights":{"type":"float",
    "num_bits":8,"symmetric":true,"dynamic":false,)" +
         weights + R"(},"input_activations":)" + inputs + "}" + more + "}}";
}
std::string Inputs(const std::string& more) {
  return R"({"type":"float","num_bits":8,"symmetric":true,)" + more + "}";
}
const std::string kChannel = R"("strategy":"channel")";
const std::string kToken = Inputs(R"("dynamic":true,"strategy":"token")");

TEST(HfQuantizationTest, NoneIsNone) {
  EXPECT_FALSE(ReadQuantization("null").value().has_value());
  EXPECT_FALSE(ReadQuantization("{}", "other").value().has_value());
}

TEST(HfQuantizationTest, ReadsTheMethodFp8) {
  EXPECT_EQ(InputsOf(R"({"quant_method":"fp8","activation_scheme":"static",
                         "ignored_layers":["lm_head"],"kv_cache_scheme":"static"})"),
            F8Inputs::kStatic);
  EXPECT_EQ(InputsOf(R"({"quant_method":"fp8","activation_scheme":"dynamic"})"), F8Inputs::kToken);
  EXPECT_EQ(InputsOf(R"({"quant_method":"fp8","activation_scheme":"dynamic","fmt":"e4m3",
                         "weight_block_size":[128,128],"modules_to_not_convert":["lm_head"]})"),
            F8Inputs::kBlock);
  EXPECT_EQ(ReadQuantization(R"({"quant_method":"fp8"})").value()->method, "fp8");
}

TEST(HfQuantizationTest, ReadsCompressedTensors) {
  EXPECT_EQ(InputsOf(Compressed(kChannel, kToken)), F8Inputs::kToken);
  EXPECT_EQ(InputsOf(Compressed(R"("strategy":"tensor")",
                                Inputs(R"("dynamic":false,"strategy":"tensor")"))),
            F8Inputs::kStatic);
  EXPECT_EQ(InputsOf(Compressed(R"("strategy":"tensor")",
                                Inputs(R"("dynamic":true,"strategy":"tensor")"))),
            F8Inputs::kToken);
  EXPECT_EQ(InputsOf(Compressed(R"("strategy":"block","block_structure":[128,128])",
                                Inputs(R"("dynamic":true,"strategy":"group","group_size":128)"))),
            F8Inputs::kBlock);
  EXPECT_EQ(InputsOf(Compressed(kChannel, "null")), F8Inputs::kAsTheyAre);
  EXPECT_EQ(ReadQuantization(Compressed(kChannel, kToken), "compression_config").value()->method,
            "compressed-tensors");
}

TEST(HfQuantizationTest, RefusesOthersWithOneSentence) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({})", "the method \"unnamed\""},
      {R"({"quant_method":"hqq"})",
       "\"hqq\"; fp8, compressed-tensors, awq, gptq, mxfp4 and modelopt are supported"},
      {R"({"quant_method":"bitsandbytes","load_in_4bit":true})", "\"bitsandbytes\"; fp8"},
      {R"({"quant_method":"fp8","activation_scheme":"maybe"})", "\"maybe\"; static and dynamic"},
      {R"({"quant_method":"fp8","activation_scheme":"static","weight_block_size":[128,128]})",
       "\"static\" beside blocks"},
      {R"({"quant_method":"fp8","fmt":"e5m2"})", "\"e5m2\", but only e4m3"},
      {R"({"quant_method":"fp8","weight_block_size":[64,128]})", "[64,128]"},
      {R"({"quant_method":"fp8","weight_block_size":128})", "blocks of [128, 128] only"},
      {R"({"quant_method":"fp8","modules_to_not_convert":"lm_head"})", "not a list of names"},
      {R"({"quant_method":"compressed-tensors"})", "\"config_groups\""},
      {R"({"quant_method":"compressed-tensors","format":"pack-quantized"})",
       "\"config_groups\" in \"quantization_config\" is missing"},
      {R"({"quant_method":"compressed-tensors","format":"marlin-24"})",
       "\"marlin-24\" by compressed-tensors"},
      {R"({"quant_method":"modelopt","quant_algo":"W4A8_AWQ"})", "\"W4A8_AWQ\" in groups of 16"},
      {R"({"quant_method":"modelopt","quant_algo":"NVFP4","group_size":32})", "in groups of 32"},
      {R"({"quant_method":"modelopt","quant_algo":"NVFP4","group_size":1e12})", "group_size"},
      {R"({"quant_method":"modelopt","quant_algo":"NVFP4","exclude_modules":{"a":1}})",
       "\"exclude_modules\" in \"quantization_config\" is not a list of names"},
      {R"({"quant_method":"modelopt"})", "\"unnamed\""},
      {R"({"quant_method":"compressed-tensors","transform_config":{"config_groups":{}}})",
       "rotations"},
      {Compressed(R"("strategy":"group")", kToken), "\"group\"; tensor, channel, and block"},
      {Compressed(R"("strategy":"block","block_structure":[32,32])", kToken), "[32,32]"},
      {Compressed(kChannel, R"({"type":"int","num_bits":8})"), "8 bits of type \"int\""},
      {Compressed(kChannel, Inputs(R"("dynamic":true,"strategy":"group","group_size":64)")),
       "dynamic \"group\" with a group size of 64"},
      {Compressed(kChannel, Inputs(R"("dynamic":"local","strategy":"tensor")")), "dynamic"},
      {Compressed(kChannel, kToken, R"(,"group_1":{"weights":{"type":"float","num_bits":8}})"),
       "more than one way"},
      {Compressed(kChannel, kToken, R"(,"group_1":{"weights":null})"), "\"weights\" in the group"},
      {Compressed(kChannel, kToken, R"(,"group_1":{"weights":{"type":"float","num_bits":4}})"),
       "4 bits of type \"float\""},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(QuantizationError(text), HasSubstr(message)) << text;
  }
}

// A group of compressed-tensors that is stored as `format`.
std::string Group(const std::string& format, const std::string& weights,
                  const std::string& inputs = "null") {
  return R"({"quant_method":"compressed-tensors","format":")" + format +
         R"(","ignore":["lm_head","re:.*mlp.gate$"],"config_groups":{"group_0":{"targets":["Linear"],
            "weights":{)" +
         weights + R"(},"input_activations":)" + inputs + "}}}";
}

TEST(HfQuantizationTest, IntegersOf8BitsHaveScalesOfRowsOrOfAll) {
  const std::string int8 = R"("num_bits":8,"type":"int","symmetric":true,)";
  const std::string dynamic = R"({"num_bits":8,"type":"int","strategy":"token","dynamic":true})";
  for (const std::string& good :
       {Group("int-quantized", int8 + R"("strategy":"channel")", dynamic),
        Group("int-quantized", int8 + R"("strategy":"tensor")",
              R"({"num_bits":8,"type":"int","strategy":"tensor","dynamic":false})"),
        Group("int-quantized", int8 + R"("strategy":"channel")")}) {
    const auto read = ReadQuantization(good);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_FALSE(read->has_value());
  }
  EXPECT_THAT(
      QuantizationError(Group("int-quantized", int8 + R"("strategy":"group","group_size":128)")),
      HasSubstr("\"group\" by compressed-tensors"));
  EXPECT_THAT(QuantizationError(Group("int-quantized", R"("num_bits":4,"type":"int")")),
              HasSubstr("4 bits of type \"int\""));
  EXPECT_THAT(
      QuantizationError(Group(
          "int-quantized", R"("num_bits":8,"type":"int","symmetric":false,"strategy":"channel")")),
      HasSubstr("zero points"));
}

TEST(HfQuantizationTest, Nvfp4IsWhatTheTensorsSay) {
  const std::string weights = R"("num_bits":4,"type":"float","symmetric":true,"dynamic":false,
                                 "strategy":"tensor_group","group_size":)";
  const std::string local =
      R"({"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,
                                "dynamic":"local"})";
  for (const std::string& good :
       {Group("nvfp4-pack-quantized", weights + "16"),
        Group("nvfp4-pack-quantized", weights + "16", local),
        std::string(R"({"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["lm_head"]})")}) {
    const auto read = ReadQuantization(good);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_FALSE(read->has_value());
  }
  EXPECT_THAT(QuantizationError(Group("nvfp4-pack-quantized", weights + "32")), HasSubstr("of 32"));
  EXPECT_THAT(QuantizationError(Group("nvfp4-pack-quantized", R"("num_bits":8,"type":"float")")),
              HasSubstr("8 bits of type \"float\""));
}

TEST(HfQuantizationTest, ReadsModelOptsOwnFile) {
  const auto read = [](const std::string& quantization) {
    return ReadModelOptConfig(R"({"producer":{"name":"modelopt"},"quantization":)" + quantization +
                              "}");
  };
  EXPECT_FALSE(ReadModelOptConfig("").value().has_value());
  EXPECT_FALSE(read("null").value().has_value());
  EXPECT_FALSE(read(R"({"quant_algo":null,"kv_cache_quant_algo":"FP8"})").value().has_value());
  EXPECT_FALSE(read(R"({"quant_algo":"NVFP4","group_size":16,"exclude_modules":["lm_head"]})")
                   .value()
                   .has_value());
  const auto fp8 = read(R"({"quant_algo":"FP8","exclude_modules":[]})");
  ASSERT_TRUE(fp8.ok() && fp8->has_value());
  EXPECT_EQ((*fp8)->inputs, F8Inputs::kStatic);
  EXPECT_THAT(read(R"({"quant_algo":"MIXED_PRECISION"})").status().message(),
              ::testing::AllOf(HasSubstr("hf_quant_config.json"), HasSubstr("MIXED_PRECISION")));
  EXPECT_FALSE(ReadModelOptConfig("{").ok());
}

TEST(HfQuantizationTest, FourBitsAreWhatTheTensorsSay) {
  const std::string group = R"("group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int",
      "symmetric":true,"strategy":"group","group_size":128})";
  for (const std::string& good :
       {std::string(R"({"quant_method":"awq","bits":4,"group_size":128,"version":"gemm",
                        "zero_point":true,"modules_to_not_convert":["visual"]})"),
        std::string(R"({"quant_method":"gptq","bits":4,"group_size":-1,"desc_act":true,
                        "checkpoint_format":"gptq","sym":true})"),
        std::string(R"({"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]})"),
        R"({"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["lm_head"],
            "config_groups":{)" +
            group + "}}}"}) {
    const auto read = ReadQuantization(good);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_FALSE(read->has_value());
  }
  EXPECT_THAT(QuantizationError(R"({"quant_method":"gptq","bits":8})"),
              HasSubstr("quantized to 8 bits"));
  EXPECT_THAT(QuantizationError(R"({"quant_method":"gptq","bits":0})"), HasSubstr("bits"));
  EXPECT_THAT(QuantizationError(R"({"quant_method":"gptq","bits":4,"group_size":1e9})"),
              HasSubstr("group_size"));
  EXPECT_THAT(
      QuantizationError(R"({"quant_method":"gptq","bits":4,"checkpoint_format":"gptq_v2"})"),
      HasSubstr("\"gptq_v2\"; only gptq is supported"));
  EXPECT_THAT(QuantizationError(R"({"quant_method":"awq","bits":4,"version":"gemv"})"),
              HasSubstr("\"gemv\"; only gemm is supported"));
  EXPECT_THAT(
      QuantizationError(R"({"quant_method":"awq","bits":4,"modules_to_not_convert":"lm_head"})"),
      HasSubstr("modules_to_not_convert"));
  const std::string packed =
      R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{)";
  EXPECT_THAT(QuantizationError(packed + group + R"(,"input_activations":{"num_bits":8}}}})"),
              HasSubstr("quantizes activations"));
  EXPECT_THAT(QuantizationError(packed + R"("group_0":{"weights":{"num_bits":8,"type":"int",
                                  "strategy":"channel"}}}})"),
              HasSubstr("to 8 bits of type \"int\""));
}

}  // namespace
}  // namespace sluice::files
