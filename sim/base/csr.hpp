// Compressed rows: a list of lists in two arrays.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace rehearsal {

template <class T>
class Csr {
 public:
  std::size_t rows() const { return offsets_.size() - 1; }
  std::span<const T> operator[](std::size_t row) const {
    return {values_.data() + offsets_[row], values_.data() + offsets_[row + 1]};
  }
  std::span<const T> values() const { return values_; }

  // Appends one row; rows come in order.
  void push_row(std::span<const T> row) {
    values_.insert(values_.end(), row.begin(), row.end());
    offsets_.push_back(static_cast<std::uint32_t>(values_.size()));
  }
  friend bool operator==(const Csr&, const Csr&) = default;
  std::size_t bytes() const { return offsets_.size() * sizeof(std::uint32_t) + values_.size() * sizeof(T); }

 private:
  std::vector<std::uint32_t> offsets_{0};
  std::vector<T> values_;
};

}  // namespace rehearsal
