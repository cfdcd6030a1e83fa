#pragma once
/// \file
/// Tensors by name in files that PyTorch's users know: reading and writing the safetensors format.
///
///     SafetensorsFile file("model.safetensors");                    // reads the header alone
///     for (const SafetensorsEntry& entry : file.entries()) ...      // names, types and shapes
///     const auto weight = file.read<float, 2>("linear1.weight");
///
///     SafetensorsWriter writer;
///     writer.add("linear1.weight", weight);
///     writer.write("copy.safetensors");
///
/// What the format is, and how strictly it is read, stands in safetensors_header.hpp.

#include "attensor/core/check.hpp"
#include "attensor/core/rows.hpp"
#include "attensor/io/safetensors_header.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// A file whose header has been checked. Elements are read when they are asked for, from one thread at a time.
class SafetensorsFile {
 public:
  /// \throws IoError if the file cannot be read or breaks a rule of the format
  explicit SafetensorsFile(const std::string& path) : SafetensorsFile(detail::open_bytes("SafetensorsFile", path)) {}
  /// The contents of a file, in memory that outlives this object.
  explicit SafetensorsFile(std::span<const std::byte> bytes) : SafetensorsFile(detail::view_bytes(bytes)) {}

  /// By their place in the file.
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// The entry of that name, or nullptr.
  const SafetensorsEntry* find(std::string_view name) const {
    const auto place = by_name_.find(name);
    return place == by_name_.end() ? nullptr : &header_.entries[place->second];
  }

  /// A tensor in the scalar type asked for. Floating-point numbers of any width become float or double, rounded where
  /// that is narrower; integers become integers, each of which has to fit; BOOL becomes bool. \throws IoError if there
  /// is no such tensor, or its type, rank or a value of it does not fit
  template <detail::Storable T, std::size_t Rank>
  Tensor<T, Rank> read(std::string_view name) {
    const SafetensorsEntry& entry = get(name);
    if (entry.shape.size() != Rank)
      fail(entry, "shape " + shape_text(entry.shape) + "; expected rank " + std::to_string(Rank));
    check_type<T>(entry);
    Shape<Rank> shape{};
    for (std::size_t d = 0; d < Rank; ++d) shape[d] = entry.shape[d];
    auto x = empty<T>(shape);
    read_elements(entry, x.data());
    return x;
  }

  /// The same into a tensor that exists. Overwrites it, also where reading fails halfway.
  /// \throws IoError as read does, or if the shape is another
  template <detail::Storable T, std::size_t Rank>
  void read_into(std::string_view name, Tensor<T, Rank>& x) {
    const SafetensorsEntry& entry = get(name);
    if (!std::equal(entry.shape.begin(), entry.shape.end(), x.shape().begin(), x.shape().end())) {
      fail(entry, "shape " + shape_text(entry.shape) + "; expected " + shape_text(x.shape()));
    }
    check_type<T>(entry);
    read_elements(entry, x.data());
  }

 private:
  explicit SafetensorsFile(detail::ByteSource source)
      : source_(std::move(source)), header_(detail::read_safetensors_header(source_)) {
    for (std::size_t i = 0; i < header_.entries.size(); ++i) by_name_.emplace(header_.entries[i].name, i);
  }

  [[noreturn]] void fail(const SafetensorsEntry& entry, const std::string& text) const {
    throw_error<IoError>({"SafetensorsFile: ", source_.name, ": tensor ", entry.name, " has ", text});
  }

  const SafetensorsEntry& get(std::string_view name) const {
    if (const SafetensorsEntry* entry = find(name)) return *entry;
    throw_error<IoError>({"SafetensorsFile: ", source_.name, " has no tensor ", name});
  }

  template <class T>
  void check_type(const SafetensorsEntry& entry) const {
    if (detail::can_read_as<T>(entry.type)) return;
    fail(entry, "dtype " + std::string(detail::info(entry.type).name) + "; expected " +
                    (std::is_same_v<T, bool> ? "BOOL"
                     : Scalar<T>             ? "F64, F32, F16 or BF16"
                                             : "I64, I32, I16, I8 or U8") +
                    " to be read as " + std::string(detail::info(*detail::stored_type_of<T>).name));
  }

  template <class T>
  void read_elements(const SafetensorsEntry& entry, T* to) {
    const Index element = detail::info(entry.type).bytes, begin = header_.data_begin + entry.begin;
    const Index count = (entry.end - entry.begin) / element;
    const auto read_bytes = [&](Index first, char* bytes, Index how_many) {
      if (!source_.read(begin + first * element, bytes, how_many * element))
        fail(entry, "elements that cannot be read");
    };
    if (entry.type == detail::stored_type_of<T> && Scalar<T> && std::endian::native == std::endian::little) {
      if (count > 0) read_bytes(0, reinterpret_cast<char*>(to), count);
      return;
    }
    std::array<char, 1 << 14> buffer;
    const Index at_once = static_cast<Index>(buffer.size()) / element;
    for (Index first = 0; first < count; first += at_once) {
      const Index part = std::min(at_once, count - first);
      read_bytes(first, buffer.data(), part);
      const Index wrong = detail::convert_elements<T>(entry.type, buffer.data(), part, to + first);
      if (wrong >= 0) {
        fail(entry, "element " + std::to_string(first + wrong) + " out of range; expected " +
                        (std::is_same_v<T, bool>
                             ? std::string("a byte of 0 or 1")
                             : "what fits into " + std::string(detail::info(*detail::stored_type_of<T>).name)));
      }
    }
  }

  detail::ByteSource source_;
  detail::SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

/// Collects tensors and writes them to one file.
class SafetensorsWriter {
 public:
  /// Text of the writer's own, which readers find in metadata().
  void set_metadata(const std::string& name, const std::string& text) { metadata_[name] = text; }

  /// A tensor or view that lives until the file is written: its elements are read then.
  /// \throws ValueError if the name was added before or is that of the metadata
  template <TensorLike X>
    requires detail::Storable<scalar_t<X>>
  void add(const std::string& name, const X& x) {
    add_view(name, read(x), nullptr);
  }
  /// A temporary is kept.
  template <detail::Storable T, std::size_t Rank>
  void add(const std::string& name, Tensor<T, Rank>&& x) {
    const auto kept = std::make_shared<const Tensor<T, Rank>>(std::move(x));
    add_view(name, kept->view(), kept);
  }

  /// A file at `path` is there whole or as it was: the new one is written beside it and renamed.
  /// \throws IoError if it cannot be written; ValueError if a name or metadata is not UTF-8
  void write(const std::string& path) const {
    // Wide elements first, so that each tensor lies at a multiple of its element's size.
    std::vector<const Item*> order;
    for (const Item& item : items_) order.push_back(&item);
    std::stable_sort(order.begin(), order.end(),
                     [](const Item* a, const Item* b) { return a->element_bytes() > b->element_bytes(); });

    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata_.empty()) header[std::string(detail::safetensors_metadata_key)] = metadata_;
    Index end = 0;
    for (const Item* item : order) {
      const Index begin =
          std::exchange(end, end + checked_count("SafetensorsWriter", item->shape) * item->element_bytes());
      header[item->name] = {
          {"dtype", detail::info(item->type).name}, {"shape", item->shape}, {"data_offsets", {begin, end}}};
    }
    std::string text;
    try {
      text = header.dump();
    } catch (const nlohmann::json::exception& error) {
      throw_error<ValueError>(
          {"SafetensorsWriter: a name or metadata is not UTF-8 (", error.what(), "); expected UTF-8"});
    }
    text.resize((text.size() + 7) / 8 * 8, ' ');

    detail::write_whole_file("SafetensorsWriter", path, [&](const auto& write) {
      std::array<char, 8> length;
      detail::store_little_endian(length.data(), std::uint64_t{text.size()});
      write(length.data(), 8);
      write(text.data(), static_cast<Index>(text.size()));
      for (const Item* item : order) item->write_elements(write);
    });
  }

 private:
  using Write = std::function<void(const char* bytes, Index count)>;
  struct Item {
    std::string name;
    StoredType type;
    std::vector<Index> shape;
    std::function<void(const Write&)> write_elements;

    Index element_bytes() const { return detail::info(type).bytes; }
  };

  template <class T, std::size_t Rank>
  void add_view(const std::string& name, const View<const T, Rank>& x, std::shared_ptr<const void> owner) {
    const bool known = std::any_of(items_.begin(), items_.end(), [&](const Item& item) { return item.name == name; });
    if (known || name == detail::safetensors_metadata_key) {
      throw_error<ValueError>({"SafetensorsWriter: name ", name,
                               known ? " was added before" : " is that of the metadata",
                               "; expected a name of its own"});
    }
    items_.push_back({name,
                      *detail::stored_type_of<T>,
                      {x.shape().begin(), x.shape().end()},
                      [x, owner = std::move(owner)](const Write& write) {
                        if (x.size() == 0) return;
                        detail::for_each_row(x, [&](const T* row, Index length) { write_row(write, row, length); });
                      }});
  }

  template <class T>
  static void write_row(const Write& write, const T* row, Index length) {
    if constexpr (std::endian::native == std::endian::little) {
      write(reinterpret_cast<const char*>(row), length * static_cast<Index>(sizeof(T)));
    } else {
      for (Index i = 0; i < length; ++i) {
        std::array<char, sizeof(T)> bytes;
        detail::store_little_endian(bytes.data(), row[i]);
        write(bytes.data(), static_cast<Index>(sizeof(T)));
      }
    }
  }

  std::map<std::string, std::string> metadata_;
  std::vector<Item> items_;
};

}  // namespace attensor::inline ATTENSOR_ISA
