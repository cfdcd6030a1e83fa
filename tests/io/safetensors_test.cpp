// Mirrors include/attensor/io/safetensors.hpp and the headers that it is made of.

#include "attensor/io/safetensors.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"
#include "support/temporary_directory.hpp"

#if __has_include(<sys/resource.h>)
#include <sys/resource.h>

#include <csignal>
#endif

using namespace attensor;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string given_file(const std::string& name) {
  return std::string(ATTENSOR_TESTS_DIR) + "/io/files/" + name + ".safetensors";
}

SafetensorsFile in_memory(const std::string& bytes) { return SafetensorsFile(std::as_bytes(std::span(bytes))); }

/// A file with this header.
std::string with_header(const std::string& header, const std::string& elements = "") {
  std::string bytes(8, '\0');
  detail::store_little_endian(bytes.data(), std::uint64_t{header.size()});
  return bytes + header + elements;
}

/// What is wrong with the file; "" if nothing is. Everything but IoError escapes.
std::string fault(const std::string& bytes) {
  try {
    (void)in_memory(bytes);
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}
std::string fault(const std::string& header, std::size_t element_bytes) {
  return fault(with_header(header, std::string(element_bytes, '\0')));
}

/// Reads every tensor of a file that passes, whatever its type.
void read_all(SafetensorsFile& file) {
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto read_as = [&]<class T>(T) {
      if (entry.shape.size() == 1) (void)file.read<T, 1>(entry.name);
      if (entry.shape.size() == 2) (void)file.read<T, 2>(entry.name);
    };
    if (entry.type == StoredType::boolean) {
      read_as(bool{});
    } else if (detail::info(entry.type).is_float) {
      read_as(float{});
    } else {
      read_as(std::int64_t{});
    }
  }
}

}  // namespace

TEST_CASE("safetensors: refuses each malformed file and says why") {
  const std::map<std::string, std::string> reasons = {
      {"m01_empty_file", "has 0 bytes; expected 8 or more"},
      {"m03_header_past_eof", "; expected at most 62, the rest of the file"},
      {"m05_len_2^63", "has a header of 9223372036854775808 bytes"},
      {"m07_len_zero", "does not begin with {"},
      {"m09_json_array", "does not begin with {"},
      {"m11_bad_utf8", "ill-formed UTF-8 byte"},
      {"m13_no_shape", "tensor t has no shape"},
      {"m15_one_offset", "tensor t has data_offsets [0]; expected [begin,end]"},
      {"m17_begin_after_end", "tensor t has data_offsets [16,0]; expected [begin,end] with begin <= end"},
      {"m19_float_offset", "tensor t has the number 16.5 in data_offsets"},
      {"m21_offset_over_2^64", "tensor t has the number 36893488147419103248 in data_offsets"},
      {"m23_shape_smaller_than_span", "tensor t has data_offsets [0,16]; expected 4 bytes for F32 [1]"},
      {"m25_one_byte_short", "has 15 bytes of elements; expected 16, where the last tensor ends"},
      {"m27_overlap", "tensor b has data_offsets [8,24]; expected them to begin at 16"},
      {"m29_hole", "tensor b has data_offsets [12,16]; expected them to begin at 8"},
      {"m31_product_wraps_to_0", "which overflows"},
      {"m33_numel_x_size_wraps", "which overflows"},
      {"m35_two_negative_dims", "tensor t has a negative number in shape"},
      {"m37_unknown_dtype", "tensor t has dtype F33; expected F64, F32"},
      {"m39_duplicate_name", "tensor t comes twice"},
      {"m41_metadata_not_strings", "is a number; expected a text"},
      {"m43_leading_space", "does not begin with {"},
      {"m45_lone_surrogate", "surrogate"},
      {"m47_exp_number", "in data_offsets; expected whole numbers"}};
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(ATTENSOR_TESTS_DIR) + "/io/files")) {
    const std::string name = entry.path().stem().string();
    if (name[0] != 'm') continue;
    ++files;
    CAPTURE(name);
    REQUIRE(reasons.contains(name));
    const std::string text = fault(bytes_of(entry.path().string()));
    INFO(text);
    CHECK(text.find("SafetensorsFile: ") == 0);
    CHECK(text.find(reasons.at(name)) != std::string::npos);
    CHECK_THROWS_AS(SafetensorsFile(entry.path().string()), IoError);
  }
  CHECK(files == 24);
}

TEST_CASE("safetensors: reads unusual files exactly") {
  std::ifstream in(std::string(ATTENSOR_TESTS_DIR) + "/cases/data/J02.json");
  const auto verdicts = nlohmann::json::parse(in).at("expected").at("files");
  CHECK(verdicts.size() == 16);
  for (const auto& verdict : verdicts) {
    const std::string name = verdict.at("file");
    CAPTURE(name);
    SafetensorsFile file(std::string(ATTENSOR_TESTS_DIR) + "/io/files/" + name);
    CHECK(file.entries().size() == verdict.at("tensors").size());
    for (const auto& [key, tensor] : verdict.at("tensors").items()) {
      CAPTURE(key);
      const SafetensorsEntry* entry = file.find(key);
      REQUIRE(entry);
      CHECK(detail::info(entry->type).name == tensor.at("dtype").get<std::string>());
      CHECK(entry->shape == tensor.at("value").at("shape").get<std::vector<Index>>());
      const auto& data = tensor.at("value").at("data");
      std::vector<double> got;
      const auto append = [&](const auto& x) {
        for (Index i = 0; i < x.size(); ++i) got.push_back(static_cast<double>(x.data()[i]));
      };
      if (entry->type == StoredType::boolean) {
        append(file.read<bool, 1>(key));
      } else if (!detail::info(entry->type).is_float) {
        append(file.read<std::int64_t, 1>(key));
      } else if (entry->shape.size() == 0) {
        append(file.read<double, 0>(key));
      } else if (entry->shape.size() == 1) {
        append(file.read<double, 1>(key));
      } else {
        append(file.read<double, 2>(key));
      }
      REQUIRE(got.size() == data.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double want = data[i] == "inf" ? infinity : data[i] == "-inf" ? -infinity : data[i].get<double>();
        CHECK(bitwise_equal(got[i], want));
      }
    }
  }
}

TEST_CASE("safetensors: metadata is kept, braces and all") {
  const SafetensorsFile file(given_file("v02_metadata_braces"));
  REQUIRE(file.metadata().size() >= 1);
  bool braces = false;
  for (const auto& [name, text] : file.metadata()) braces = braces || text.find('}') != std::string::npos;
  CHECK(braces);
}

TEST_CASE("safetensors: a file cut at any byte, or longer by any byte, is refused") {
  for (const char* name : {"v01_two", "v04_zero_size", "v12_escaped_name", "v15_ints", "v16_unknown_extra_field"}) {
    const std::string whole = bytes_of(given_file(name));
    CHECK(fault(whole) == "");
    for (std::size_t length = 0; length < whole.size(); ++length) {
      CAPTURE(length);
      CHECK(fault(whole.substr(0, length)) != "");
    }
    CHECK(fault(whole + '\0') != "");
  }
}

TEST_CASE("safetensors: a file with any bytes changed is read or refused, nothing else") {
  const std::vector<std::string> names = {"v01_two", "v02_metadata_braces", "v04_zero_size", "v15_ints",
                                          "v16_unknown_extra_field"};
  for_random_cases(3000, [&](Rng& rng) {
    std::string bytes = bytes_of(given_file(names[static_cast<std::size_t>(rng.below(5))]));
    for (Index changes = random_between(rng, 1, 4); changes > 0; --changes) {
      const auto place = static_cast<std::size_t>(rng.below(static_cast<Index>(bytes.size())));
      switch (rng.below(4)) {
        case 0:
          bytes[place] = static_cast<char>(rng.below(256));
          break;
        case 1:
          bytes.erase(place, static_cast<std::size_t>(random_between(rng, 1, 4)));
          break;
        case 2:
          bytes.insert(place, 1, "{}[]\",:0123456789-.e \\u"[rng.below(23)]);
          break;
        default:
          bytes[place] = static_cast<char>(bytes[place] ^ (1 << rng.below(8)));
      }
      if (bytes.empty()) bytes = "x";
    }
    try {
      auto file = in_memory(bytes);
      read_all(file);
    } catch (const IoError&) {
    }
  });
}

TEST_CASE("safetensors: each rule of the header is kept") {
  const std::string good = R"("t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(fault("{" + good + "}", 8) == "");
  CHECK(fault("{" + good + "}    ", 8) == "");
  const auto refused = [&](const std::string& header, const std::string& reason) {
    const std::string text = fault(header, 8);
    INFO(header, " gives: ", text);
    CHECK(text.find(reason) != std::string::npos);
  };
  refused("{" + good + "} {}", "not JSON");
  refused("{" + good + "}" + std::string(1, '\0'), "zero byte");
  refused("{" + good + "," + good + "}", "t comes twice");
  refused("\xEF\xBB\xBF{" + good + "}", "does not begin with {");
  refused("{" + good + ",}", "not JSON");
  refused("{" + good, "not JSON");
  refused("{" + good + R"(,"__metadata__":{},"__metadata__":{}})", "__metadata__ comes twice");
  refused("{" + good + R"(,"__metadata__":{"a":"1","a":"2"}})", "metadata a comes twice");
  refused("{" + good + R"(,"__metadata__":{"a":{}}})", "metadata a is an object; expected a text");
  refused("{" + good + R"(,"__metadata__":null})", "metadata is null; expected an object");
  refused("{" + good + R"(,"__metadata__":[]})", "metadata is an array; expected an object");
  refused(R"({"t":7})", "tensor t is a number; expected an object");
  refused(R"({"t":[]})", "tensor t is an array; expected an object");
  refused(R"({"t":{}})", "tensor t has no dtype");
  refused(R"({"t":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "t has dtype twice");
  refused(R"({"t":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", "t has a number as dtype; expected a text");
  refused(R"({"t":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}})", "t has dtype f32");
  refused(R"({"t":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "t has a number as shape; expected an array");
  refused(R"({"t":{"dtype":"F32","shape":{},"data_offsets":[0,8]}})", "t has an object as shape");
  refused(R"({"t":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "t has an array in shape");
  refused(R"({"t":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})", "t has a text in shape");
  refused(R"({"t":{"dtype":"F32","shape":[-0],"data_offsets":[0,8]}})", "t has a negative number in shape");
  refused(R"({"t":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "t has the number 2.0 in shape");
  refused(R"({"t":{"dtype":"F32","shape":[true],"data_offsets":[0,8]}})", "t has a truth value in shape");
  refused(R"({"t":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}})", "below 2^63");
  refused(R"({"t":{"dtype":"F32","shape":[1e400],"data_offsets":[0,8]}})", "not JSON");
  refused(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", "data_offsets [0,8,8]");
  refused(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[]}})", "data_offsets []");
  refused(R"({"t":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}})", "expected 16 bytes for F64 [2]");
  refused(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", "expected them to begin at 0");
  refused("{}", "has 8 bytes of elements; expected 0");
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  refused(R"({"t":{"dtype":"F32","shape":[)" + ones + R"(],"data_offsets":[0,4]}})", "at most 64 numbers");
}

TEST_CASE("safetensors: fields that the format does not know are passed over, however deep") {
  const std::string deep = std::string(10000, '[') + std::string(10000, ']');
  CHECK(fault(R"({"t":{"dtype":"F32","x":{"shape":[{"dtype":1}],"y":)" + deep +
                  R"(},"shape":[2],"z":-1.5,"data_offsets":[0,8]}})",
              8) == "");
}

TEST_CASE("safetensors: a header of more than 100 MB is refused before it is read") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("large");
  write_bytes(path, with_header("{}"));
  std::string length(8, '\0');
  detail::store_little_endian(length.data(), std::uint64_t{100'000'001});
  write_bytes(path, length);
  std::filesystem::resize_file(path, 8 + 100'000'001);  // a hole, no blocks on the disk
  CHECK_THROWS_WITH_AS(SafetensorsFile{path},
                       ("SafetensorsFile: " + path +
                        " has a header of 100000001 bytes; expected at most 100000000, the limit of the format")
                           .c_str(),
                       IoError);
}

TEST_CASE("safetensors: a file that is none, and one that shrinks") {
  const TemporaryDirectory directory;
  CHECK_THROWS_AS(SafetensorsFile{directory.file("none")}, IoError);
  CHECK_THROWS_AS(SafetensorsFile{directory.file("")}, IoError);
  const std::string path = directory.file("shrinks");
  write_bytes(path, bytes_of(given_file("v01_two")));
  SafetensorsFile file(path);
  std::filesystem::resize_file(path, 140);
  CHECK_THROWS_WITH_AS((file.read<float, 1>("b")),
                       ("SafetensorsFile: " + path + ": tensor b has elements that cannot be read").c_str(), IoError);
}

TEST_CASE("safetensors: all halves and bfloat16s come out exactly") {
  std::string elements;
  for (int bits = 0; bits < 65536; ++bits) elements += {static_cast<char>(bits & 255), static_cast<char>(bits >> 8)};
  for (const bool half : {true, false}) {
    const std::string bytes = with_header(
        R"({"t":{"dtype":")" + std::string(half ? "F16" : "BF16") + R"(","shape":[65536],"data_offsets":[0,131072]}})",
        elements);
    auto file = in_memory(bytes);
    const auto x = file.read<float, 1>("t");
    const auto y = file.read<double, 1>("t");
    const int mantissa_bits = half ? 10 : 7, bias = half ? 15 : 127, top = half ? 31 : 255;
    int wrong = 0;
    for (int bits = 0; bits < 65536; ++bits) {
      const int mantissa = bits & ((1 << mantissa_bits) - 1), exponent = (bits >> mantissa_bits) & top;
      double want = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                  : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
      if (exponent == top) want = mantissa == 0 ? infinity : not_a_number;
      if (bits & 0x8000) want = -want;
      const bool same = std::isnan(want)
                            ? std::isnan(x(bits)) && std::isnan(y(bits))
                            : bitwise_equal(x(bits), static_cast<float>(want)) && bitwise_equal(y(bits), want);
      wrong += !same;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("safetensors: only types that fit are read, and values that fit") {
  auto file = SafetensorsFile(given_file("v15_ints"));
  CHECK(file.read<std::int64_t, 1>("i64")(1) == 1099511627776);
  CHECK(file.read<std::int32_t, 1>("i16")(0) == -4);
  CHECK(file.read<std::int16_t, 1>("u8")(0) == 250);
  const auto reason = [&](auto&& read) {
    try {
      read();
      return std::string();
    } catch (const IoError& error) {
      const std::string text = error.what();
      return text.substr(text.find(": tensor") + 2);
    }
  };
  CHECK(reason([&] { (void)file.read<std::int32_t, 1>("i64"); }) ==
        "tensor i64 has element 1 out of range; expected what fits into I32");
  CHECK(reason([&] { (void)file.read<std::uint8_t, 1>("i8"); }) ==
        "tensor i8 has element 0 out of range; expected what fits into U8");
  CHECK(reason([&] { (void)file.read<float, 1>("i64"); }) ==
        "tensor i64 has dtype I64; expected F64, F32, F16 or BF16 to be read as F32");
  CHECK(reason([&] { (void)file.read<std::int64_t, 1>("f64"); }) ==
        "tensor f64 has dtype F64; expected I64, I32, I16, I8 or U8 to be read as I64");
  CHECK(reason([&] { (void)file.read<bool, 1>("u8"); }) == "tensor u8 has dtype U8; expected BOOL to be read as BOOL");
  CHECK(reason([&] { (void)file.read<std::int64_t, 1>("b"); }) ==
        "tensor b has dtype BOOL; expected I64, I32, I16, I8 or U8 to be read as I64");
  CHECK(reason([&] { (void)file.read<double, 2>("f64"); }) == "tensor f64 has shape [1]; expected rank 2");
  Tensor<double, 1> two(Shape{2});
  CHECK(reason([&] { file.read_into("f64", two); }) == "tensor f64 has shape [1]; expected [2]");
  CHECK_THROWS_AS((file.read<double, 1>("f65")), IoError);
  CHECK(file.find("f65") == nullptr);

  const std::string two_bools = with_header(R"({"b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\x01\x02");
  auto bools = in_memory(two_bools);
  CHECK(reason([&] { (void)bools.read<bool, 1>("b"); }) ==
        "tensor b has element 1 out of range; expected a byte of 0 or 1");
}

TEST_CASE("safetensors: what is written is read again to the bit") {
  const TemporaryDirectory directory;
  for_random_cases(20, [&](Rng& rng, Index size) {
    const std::string path = directory.file("all");
    const auto f32 = normal<float>({3, size}, rng);
    const auto f64 = normal<double>({size}, rng);
    const auto mask = random_mask(Shape{size, 2}, rng);
    const auto ids = to<std::int64_t>(normal<double>({size, 1, 2}, rng, {.stddev = 1e15}));
    const Tensor<std::int8_t, 1> i8 = {-128, 127};
    const Tensor<std::uint8_t, 1> u8 = {0, 255};
    const Tensor<std::int16_t, 1> i16 = {-32768};
    const Tensor<std::int32_t, 1> i32 = {-2147483647};
    const Tensor<float, 0> scalar(Shape<0>{});
    const Tensor<double, 1> special = {not_a_number, -infinity, -0.0, 5e-324};
    SafetensorsWriter writer;
    writer.set_metadata("{\"note\"}", "zwölf \n \" \\");
    writer.add("u8", u8);
    writer.add("f32", f32);
    writer.add("f32 columns", slice(f32, 1, size / 2, size));
    writer.add("mask", mask);
    writer.add("é/ids", ids);
    writer.add("i8", i8);
    writer.add("i16", i16);
    writer.add("i32", i32);
    writer.add("f64", f64);
    writer.add("scalar", scalar);
    writer.add("special", special);
    writer.add("empty", zeros<float>({0, 7}));
    writer.add("temporary", full<float>({5}, 2.5f));
    writer.write(path);

    SafetensorsFile file(path);
    CHECK(file.entries().size() == 13);
    CHECK(file.metadata() == std::map<std::string, std::string>{{"{\"note\"}", "zwölf \n \" \\"}});
    CHECK(bitwise_equal(file.read<float, 2>("f32"), f32));
    CHECK(bitwise_equal(file.read<float, 2>("f32 columns"), slice(f32, 1, size / 2, size)));
    CHECK(bitwise_equal(file.read<bool, 2>("mask"), mask));
    CHECK(bitwise_equal(file.read<std::int64_t, 3>("é/ids"), ids));
    CHECK(bitwise_equal(file.read<std::int8_t, 1>("i8"), i8));
    CHECK(bitwise_equal(file.read<std::uint8_t, 1>("u8"), u8));
    CHECK(bitwise_equal(file.read<std::int16_t, 1>("i16"), i16));
    CHECK(bitwise_equal(file.read<std::int32_t, 1>("i32"), i32));
    CHECK(bitwise_equal(file.read<double, 1>("f64"), f64));
    CHECK(bitwise_equal(file.read<float, 0>("scalar"), scalar));
    CHECK(bitwise_equal(file.read<double, 1>("special"), special));
    CHECK(file.read<float, 2>("empty").shape() == Shape{0, 7});
    CHECK(bitwise_equal(file.read<float, 1>("temporary"), full<float>({5}, 2.5f)));
    CHECK_NEAR((file.read<float, 1>("f64")), f64, 1e-7);
    const Index data_begin = 8 + detail::load_little_endian<std::int64_t>(bytes_of(path).data());
    CHECK(data_begin % 8 == 0);
    for (const SafetensorsEntry& entry : file.entries()) CHECK(entry.begin % detail::info(entry.type).bytes == 0);
    CHECK(directory.count() == 1);  // no temporary file is left
  });
}

TEST_CASE("safetensors: an empty file can be written") {
  const TemporaryDirectory directory;
  SafetensorsWriter().write(directory.file("empty"));
  CHECK(SafetensorsFile(directory.file("empty")).entries().empty());
}

TEST_CASE("safetensors: names that cannot be are refused, and the old file stays") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("file");
  write_bytes(path, "old");
  SafetensorsWriter writer;
  writer.add("a", ones<float>({1}));
  CHECK_THROWS_WITH_AS(writer.add("a", ones<float>({1})),
                       "SafetensorsWriter: name a was added before; expected a name of its own", ValueError);
  CHECK_THROWS_AS(writer.add("__metadata__", ones<float>({1})), ValueError);
  writer.add("\xFF", ones<float>({1}));
  CHECK_THROWS_AS(writer.write(path), ValueError);
  CHECK(bytes_of(path) == "old");
  CHECK(directory.count() == 1);
}

#if __has_include(<sys/resource.h>)

TEST_CASE("safetensors: a write that fails halfway leaves the old file whole and nothing else") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("file");
  write_bytes(path, "old");
  SafetensorsWriter writer;
  writer.add("a", ones<float>({1 << 20}));

  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 16, before.rlim_max};  // stands for a full disk
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_THROWS_AS(writer.write(path), IoError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  CHECK(bytes_of(path) == "old");
  CHECK(directory.count() == 1);
  CHECK_THROWS_AS(writer.write(directory.file("no/such/directory")), IoError);
  std::filesystem::create_directory(directory.file("directory"));
  CHECK_THROWS_AS(writer.write(directory.file("directory")), IoError);
  CHECK(directory.count() == 2);
  writer.write(path);
  CHECK(SafetensorsFile(path).entries().size() == 1);
}
#endif
