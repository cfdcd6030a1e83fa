#pragma once
/// \file
/// Takes the JSON of a safetensors header as it is read: what does not belong there ends the reading at once, no tree
/// is built, and no key may come twice. The format is described in safetensors_header.hpp.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "attensor/core/shape.hpp"
#include "attensor/io/stored_type.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// A tensor in a file, as its header lists it.
struct SafetensorsEntry {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<Index> shape;
  Index begin = 0, end = 0;  ///< in bytes, from the end of the header
};

namespace detail {

inline constexpr std::string_view safetensors_metadata_key = "__metadata__";

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< by offset
  std::map<std::string, std::string> metadata;
  Index data_begin = 0;  ///< in bytes, from the beginning of the file
};

class SafetensorsParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsParser(const std::string& file, SafetensorsHeader& header) : file_(file), header_(header) {}

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::start:
        state_ = State::names;
        return true;
      case State::name_value:
        state_ = is_metadata_ ? State::metadata : State::fields;
        fields_.clear();
        return true;
      default:
        return enter_unknown("an object");
    }
  }
  bool end_object() override {
    switch (state_) {
      case State::names:
        state_ = State::end;
        return true;
      case State::metadata:
        state_ = State::names;
        return true;
      case State::fields:
        return end_entry();
      default:
        return leave_unknown();
    }
  }
  bool start_array(std::size_t) override {
    if (state_ != State::field_value || (field_ != "shape" && field_ != "data_offsets"))
      return enter_unknown("an array");
    state_ = State::numbers;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    if (state_ != State::numbers) return leave_unknown();
    state_ = State::fields;
    if (field_ == "shape") {
      entry_.shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2 || numbers_[0] > numbers_[1]) {
      return fail("tensor " + entry_.name + " has data_offsets " + shape_text(numbers_) +
                  "; expected [begin,end] with begin <= end");
    }
    entry_.begin = numbers_[0];
    entry_.end = numbers_[1];
    return true;
  }
  bool key(string_t& name) override {
    switch (state_) {
      case State::names:
        if (!names_.insert(name).second) return fail("tensor " + name + " comes twice; expected each name once");
        is_metadata_ = name == safetensors_metadata_key;
        entry_ = {};
        entry_.name = name;
        state_ = State::name_value;
        return true;
      case State::metadata:
        if (header_.metadata.contains(name)) return fail("metadata " + name + " comes twice; expected each name once");
        field_ = name;
        state_ = State::metadata_value;
        return true;
      case State::fields:
        if (!fields_.insert(name).second)
          return fail("tensor " + entry_.name + " has " + name + " twice; expected it once");
        field_ = name;
        state_ = State::field_value;
        return true;
      default:
        return true;  // within a field that the format does not know
    }
  }
  bool string(string_t& text) override {
    if (state_ == State::metadata_value) {
      header_.metadata[field_] = text;
      state_ = State::metadata;
      return true;
    }
    if (state_ != State::field_value || field_ != "dtype") return scalar("a text");
    const auto type =
        std::find_if(stored_types.begin(), stored_types.end(), [&](const auto& t) { return t.name == text; });
    if (type == stored_types.end()) {
      return fail("tensor " + entry_.name + " has dtype " + text +
                  "; expected F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL");
    }
    entry_.type = type->type;
    state_ = State::fields;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::numbers) return scalar("a number");
    constexpr std::size_t highest_rank = 64;  // keeps what a header takes in memory within its length
    if (!std::in_range<Index>(value) || numbers_.size() == highest_rank) {
      return fail("tensor " + entry_.name + " has " + field_ + " that do not fit; expected at most " +
                  std::to_string(highest_rank) + " numbers below 2^63");
    }
    numbers_.push_back(static_cast<Index>(value));
    return true;
  }
  bool number_integer(number_integer_t) override { return scalar("a negative number"); }
  bool number_float(number_float_t, const string_t& text) override { return scalar("the number " + text); }
  bool boolean(bool) override { return scalar("a truth value"); }
  bool null() override { return scalar("null"); }
  bool binary(binary_t&) override { return scalar("binary data"); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    return fail(std::string("the header is not JSON (") + error.what() + "); expected a JSON object in UTF-8");
  }

  const std::string& message() const { return message_; }

 private:
  enum class State { start, names, name_value, metadata, metadata_value, fields, field_value, numbers, unknown, end };

  bool fail(const std::string& message) {
    message_ = file_ + ": " + message;
    return false;
  }

  /// A value that is no container: fine within fields that the format does not know, wrong everywhere else.
  bool scalar(const std::string& what) {
    if (state_ == State::unknown) return true;
    if (!is_unknown_field()) return misplaced(what);
    state_ = State::fields;
    return true;
  }
  bool enter_unknown(const std::string& what) {
    if (state_ != State::unknown) {
      if (!is_unknown_field()) return misplaced(what);
      state_ = State::unknown;
    }
    ++depth_;
    return true;
  }
  bool leave_unknown() {
    if (--depth_ == 0) state_ = State::fields;
    return true;
  }
  bool is_unknown_field() const {
    return state_ == State::field_value && field_ != "dtype" && field_ != "shape" && field_ != "data_offsets";
  }
  bool misplaced(const std::string& what) {
    switch (state_) {
      case State::name_value:
        return fail((is_metadata_ ? "metadata" : "tensor " + entry_.name) + " is " + what + "; expected an object");
      case State::metadata_value:
        return fail("metadata " + field_ + " is " + what + "; expected a text");
      case State::field_value:
        return fail("tensor " + entry_.name + " has " + what + " as " + field_ + "; expected " +
                    (field_ == "dtype" ? "a text" : "an array of whole numbers"));
      case State::numbers:
        return fail("tensor " + entry_.name + " has " + what + " in " + field_ + "; expected whole numbers from 0 on");
      default:
        return fail("the header is " + what + "; expected an object");
    }
  }

  bool end_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) {
        return fail("tensor " + entry_.name + " has no " + field + "; expected dtype, shape and data_offsets");
      }
    }
    header_.entries.push_back(std::move(entry_));
    state_ = State::names;
    return true;
  }

  const std::string& file_;
  SafetensorsHeader& header_;
  std::string message_;
  State state_ = State::start;
  Index depth_ = 0;  // of containers within an unknown field
  bool is_metadata_ = false;
  std::set<std::string> names_, fields_;
  std::string field_;
  std::vector<Index> numbers_;
  SafetensorsEntry entry_;
};

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
