// The bias gradient on the host: for each channel the sum of dy over images and pixels.
// SPDX-License-Identifier: Apache-2.0
#include "host/bias_grad.hpp"

#include "core/parallel.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using bias_grad::Args;
using bias_grad::Problem;

template <class T>
void run(const Problem& problem, const Args& args) {
  TensorGeometry channel = problem.dy;  // dy of one channel
  channel.dims[1] = 1;
  const int rank = merge_dimensions(&channel, 1);
  const std::int64_t count = element_count(channel);
  const auto* const dy = static_cast<const T*>(args.dy);
  auto* const db = static_cast<T*>(args.db);
  parallel_for(problem.db.dims[1], grain_for(4 * count), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const T* const first = dy + k * problem.dy.strides[1];
      double sum = 0;
      for (std::int64_t i = 0; i < count; ++i)
        sum += to_double(first[offset_of(i, rank, channel.dims, channel.strides)]);
      store(db + k * problem.db.strides[1], args.alpha * sum, args.beta);
    }
  });
}

}  // namespace

void bias_grad(const Problem& problem, const Args& args) {
  if (element_count(problem.db) == 0) return;
  with_floating_type(problem.db.type, [&]<class T>() { run<T>(problem, args); });
}

}  // namespace gpudnn::host
