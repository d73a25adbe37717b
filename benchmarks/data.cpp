// Filling and comparing tensors.
// SPDX-License-Identifier: Apache-2.0
#include "data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "core/data_type.hpp"
#include "core/float8.hpp"

namespace gpudnn::bench {
namespace {

// A tensor is filled with one block over and over. The length is prime, so rows and channels do not line up with it.
// Each seed has a block of its own: the gradient of a filter between a tensor and a shifted copy of it has a peak far
// above all else, and what is measured as its error is the rounding of that.
constexpr std::size_t kBlockLength = 1048573;

template <class T>
std::vector<T> normal_block(unsigned seed) {
  std::mt19937_64 generator(20 + seed);
  std::normal_distribution<double> normal;
  std::vector<T> block(kBlockLength);
  for (T& value : block) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(static_cast<int>(generator() % 5) - (std::is_signed_v<T> ? 2 : 0));
    } else {
      value = round_to<T>(normal(generator));
    }
  }
  return block;
}

// Values that all differ in the type, shuffled: both signs of a grid of 6 binades with 127 steps each, which even bf16
// has. 1523 of the 1524 are taken, because that is a prime.
template <class T>
std::vector<T> distinct_block() {
  constexpr std::size_t kDistinct = 1523;
  std::vector<double> values;
  for (int binade = -4; binade < 2; ++binade) {
    for (int step = 0; step < 127; ++step) {
      const double magnitude = std::ldexp(1.0 + step / 128.0, binade);
      values.push_back(magnitude);
      values.push_back(-magnitude);
    }
  }
  values.resize(kDistinct);
  std::mt19937_64 generator(21);
  std::shuffle(values.begin(), values.end(), generator);
  std::vector<T> block(kDistinct * 64);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = round_to<T>(values[i % kDistinct]);
  return block;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> positive_block(unsigned seed) {
  std::vector<T> block = normal_block<T>(seed);
  for (T& value : block) value = round_to<T>(0.5 + std::fabs(to_double(value)));
  return block;
}

template <class T>
std::vector<T> small_block(unsigned seed) {
  std::vector<T> block = normal_block<T>(seed);
  for (T& value : block) value = round_to<T>(0.05 * to_double(value));
  return block;
}

std::vector<std::byte> make_block(DataType type, Fill kind, unsigned seed) {
  if (is_floating(type) && kind == Fill::small) {
    return with_floating_type(type, [seed]<class T>() { return bytes_of(small_block<T>(seed)); });
  }
  if (is_floating(type) && kind == Fill::positive) {
    return with_floating_type(type, [seed]<class T>() { return bytes_of(positive_block<T>(seed)); });
  }
  if (is_floating(type)) {
    return with_floating_type(type, [kind, seed]<class T>() {
      return bytes_of(kind == Fill::normal ? normal_block<T>(seed) : distinct_block<T>());
    });
  }
  switch (type) {
    case GPUDNN_DATA_FP8_E4M3:
      return bytes_of(normal_block<Float8E4M3>(seed));
    case GPUDNN_DATA_FP8_E5M2:
      return bytes_of(normal_block<Float8E5M2>(seed));
    case GPUDNN_DATA_INT32:
      return bytes_of(normal_block<std::int32_t>(seed));
    case GPUDNN_DATA_INT64:
      return bytes_of(normal_block<std::int64_t>(seed));
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_UINT8x4:
    case GPUDNN_DATA_BOOLEAN:
      return bytes_of(normal_block<std::uint8_t>(seed));
    default:
      return bytes_of(normal_block<std::int8_t>(seed));
  }
}

const std::vector<std::byte>& block_of(DataType type, Fill kind, unsigned seed) {
  static std::map<std::tuple<DataType, Fill, unsigned>, std::vector<std::byte>> blocks;
  auto [at, is_new] = blocks.try_emplace({type, kind, seed});
  if (is_new) at->second = make_block(type, kind, seed);
  return at->second;
}

// Calls visit(offset) for the offset of each element.
template <class Visit>
void for_each_offset(const TensorGeometry& tensor, Visit&& visit) {
  const std::int64_t count = element_count(tensor);
  if (count == element_span(tensor)) {  // no gaps: the order does not matter
    for (std::int64_t i = 0; i < count; ++i) visit(static_cast<std::size_t>(i));
    return;
  }
  std::int64_t index[kMaxRank] = {};
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t offset = 0;
    for (int i = 0; i < tensor.rank; ++i) offset += index[i] * tensor.strides[i];
    visit(static_cast<std::size_t>(offset));
    for (int i = tensor.rank - 1; i >= 0 && ++index[i] == tensor.dims[i]; --i) index[i] = 0;
  }
}

template <class T>
double load(const std::vector<std::byte>& values, std::size_t offset) {
  T value;
  std::memcpy(&value, values.data() + offset * sizeof(T), sizeof(T));
  return to_double(value);
}

struct Sums {
  double difference = 0;
  double reference = 0;
};

template <class T>
Sums compare_elements(const TensorGeometry& tensor, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  Sums sums;
  for_each_offset(tensor, [&](std::size_t offset) {
    const double x = load<T>(a, offset);
    const double y = load<T>(b, offset);
    if (std::isinf(y) && x == y) return;
    sums.difference += (x - y) * (x - y);
    sums.reference += y * y;
  });
  return sums;
}

}  // namespace

void fill(Machine& machine, const TensorGeometry& tensor, void* pointer, Fill kind, unsigned seed) {
  const std::vector<std::byte>& block = block_of(tensor.type, kind, seed);
  const std::size_t element = std::max<std::size_t>(1, static_cast<std::size_t>(data_type_bits(tensor.type)) / 8);
  // Each seed starts at another element of the block.
  std::size_t start = (seed * std::size_t{7919} * element) % block.size();
  start -= start % element;
  const std::size_t bytes = size_in_bytes(tensor);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(block.size() - start, bytes - done);
    machine.upload(static_cast<char*>(pointer) + done, block.data() + start, part);
    done += part;
    start = 0;
  }
}

void poison(Machine& machine, const Buffer& buffer) {
  if (buffer.bytes() > 0) machine.fill_bytes(buffer.get(), 0xff, buffer.bytes());
}

bool is_comparable(DataType type) noexcept {
  return is_floating(type) || is_float8(type) || type == GPUDNN_DATA_INT8 || type == GPUDNN_DATA_INT32;
}

std::size_t count_nan(const TensorGeometry& tensor, const std::vector<std::byte>& values) {
  const auto count = [&]<class T>() {
    std::size_t found = 0;
    for_each_offset(tensor, [&](std::size_t offset) { found += std::isnan(load<T>(values, offset)) ? 1 : 0; });
    return found;
  };
  if (tensor.type == GPUDNN_DATA_FP8_E4M3) return count.template operator()<Float8E4M3>();
  if (tensor.type == GPUDNN_DATA_FP8_E5M2) return count.template operator()<Float8E5M2>();
  return is_floating(tensor.type) ? with_floating_type(tensor.type, count) : 0;
}

double relative_error(const TensorGeometry& tensor, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  Sums sums;
  if (is_floating(tensor.type)) {
    sums = with_floating_type(tensor.type, [&]<class T>() { return compare_elements<T>(tensor, a, b); });
  } else if (tensor.type == GPUDNN_DATA_FP8_E4M3) {
    sums = compare_elements<Float8E4M3>(tensor, a, b);
  } else if (tensor.type == GPUDNN_DATA_FP8_E5M2) {
    sums = compare_elements<Float8E5M2>(tensor, a, b);
  } else if (tensor.type == GPUDNN_DATA_INT8) {
    sums = compare_elements<std::int8_t>(tensor, a, b);
  } else if (tensor.type == GPUDNN_DATA_INT32) {
    sums = compare_elements<std::int32_t>(tensor, a, b);
  } else {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (sums.reference == 0) return std::sqrt(sums.difference);
  return std::sqrt(sums.difference / sums.reference);
}

Errors errors_of_floats(const TensorGeometry& tensor, const std::vector<std::byte>& floats,
                        const std::vector<std::byte>& doubles) {
  Errors errors;
  double squares = 0;
  double reference = 0;
  for_each_offset(tensor, [&](std::size_t offset) {
    const double expected = load<double>(doubles, offset);
    const double error = std::fabs(load<float>(floats, offset) - expected);
    errors.greatest = std::fmax(errors.greatest, error);
    squares += error * error;
    reference += expected * expected;
  });
  const double count = static_cast<double>(element_count(tensor));
  errors.greatest /= std::sqrt(reference / count);
  errors.mean = std::sqrt(squares / reference);
  return errors;
}

}  // namespace gpudnn::bench
