// The bias gradient on the host: for each channel the sum of dy over images and pixels.
// SPDX-License-Identifier: Apache-2.0
#include "host/bias_grad.hpp"

#include "core/parallel.hpp"
#include "host/element.hpp"
#include "host/walk.hpp"

namespace gpudnn::host {
namespace {

using bias_grad::Args;
using bias_grad::Problem;

template <class T>
void run(const Problem& problem, const Args& args) {
  TensorGeometry channel = problem.dy;  // dy of one channel
  channel.dims[1] = 1;
  const Walk<1> walk({channel});
  const auto* const dy = static_cast<const T*>(args.dy);
  auto* const db = static_cast<T*>(args.db);
  parallel_for(problem.db.dims[1], grain_for(walk.count()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const T* const first = dy + k * problem.dy.strides[1];
      double sum = 0;
      walk.for_each(0, walk.count(), [&](std::int64_t at) { sum += to_double(first[at]); });
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
