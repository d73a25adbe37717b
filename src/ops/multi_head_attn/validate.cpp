// The checks of the classic multi-head attention.
// SPDX-License-Identifier: Apache-2.0
#include "core/validation.hpp"
#include "ops/multi_head_attn/problem.hpp"

namespace gpudnn::mha {
namespace {

constexpr const char* kNames[] = {"q", "k", "v", "o"};

Status require_types(const Layer& layer) {
  GPUDNN_REQUIRE(is_floating(layer.type), GPUDNN_STATUS_NOT_SUPPORTED,
                 "dataType is %s; attention is built for f32, f64, f16 and bf16", data_type_name(layer.type));
  const bool is_double = layer.type == GPUDNN_DATA_DOUBLE;
  const bool is_half = layer.type == GPUDNN_DATA_HALF && layer.compute == GPUDNN_DATA_HALF;
  const DataType wanted = is_double ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  // A wider accumulator than was asked for is no harm.
  GPUDNN_REQUIRE(layer.compute == wanted || is_half, GPUDNN_STATUS_NOT_SUPPORTED,
                 "computePrec is %s; with data of %s it must be %s", data_type_name(layer.compute),
                 data_type_name(layer.type), data_type_name(wanted));
  return GPUDNN_STATUS_SUCCESS;
}

Status require_positive(int value, const char* name) {
  GPUDNN_REQUIRE(value > 0, GPUDNN_STATUS_BAD_PARAM, "%s is %d; it must be positive", name, value);
  return GPUDNN_STATUS_SUCCESS;
}

Status require_sizes(const Layer& layer) {
  constexpr const char* kSizes[] = {"qSize", "kSize", "vSize"};
  constexpr const char* kProjections[] = {"qProjSize", "kProjSize", "vProjSize", "oProjSize"};
  GPUDNN_TRY(require_positive(layer.heads, "nHeads"));
  for (int i = 0; i < 3; ++i) GPUDNN_TRY(require_positive(layer.size[i], kSizes[i]));
  for (int i = 0; i < kParts; ++i) {
    GPUDNN_REQUIRE(layer.proj[i] >= 0, GPUDNN_STATUS_BAD_PARAM, "%s is %d; it must be positive, or 0 for no projection",
                   kProjections[i], layer.proj[i]);
  }
  GPUDNN_REQUIRE(layer.head_size(kQ) == layer.head_size(kK), GPUDNN_STATUS_BAD_PARAM,
                 "a head's query has %lld elements and its key %lld (qProjSize and kProjSize, or qSize and kSize where "
                 "those are 0); they must be equal",
                 static_cast<long long>(layer.head_size(kQ)), static_cast<long long>(layer.head_size(kK)));
  GPUDNN_TRY(require_positive(layer.max_time_q, "qoMaxSeqLength"));
  GPUDNN_TRY(require_positive(layer.max_time_kv, "kvMaxSeqLength"));
  GPUDNN_TRY(require_positive(layer.max_batch, "maxBatchSize"));
  return require_positive(layer.max_beam, "maxBeamSize");
}

Status require_probability(float p, const char* name) {
  GPUDNN_REQUIRE(p >= 0 && p <= 1, GPUDNN_STATUS_BAD_PARAM, "%s drops with probability %g; it must be 0 to 1", name,
                 static_cast<double>(p));
  return GPUDNN_STATUS_SUCCESS;
}

struct Extents {
  std::int64_t time, batch, beam, size;
};

Status require_extents(const Sequences& s, const char* name, const Extents& wanted) {
  const struct {
    std::int64_t is, wanted;
    const char* what;
  } extents[] = {{s.time, wanted.time, "time steps"},
                 {s.batch, wanted.batch, "batches"},
                 {s.beam, wanted.beam, "beams"},
                 {s.size, wanted.size, "elements in a vector"}};
  for (const auto& e : extents) {
    GPUDNN_REQUIRE(e.is == e.wanted, GPUDNN_STATUS_BAD_PARAM, "%sDesc has %lld %s; here it must have %lld", name,
                   static_cast<long long>(e.is), e.what, static_cast<long long>(e.wanted));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status require_at_most(std::int64_t value, std::int64_t most, const char* what, const char* limit) {
  GPUDNN_REQUIRE(value <= most, GPUDNN_STATUS_BAD_PARAM,
                 "the sequences have %lld %s; %s of the attention descriptor is %lld", static_cast<long long>(value),
                 what, limit, static_cast<long long>(most));
  return GPUDNN_STATUS_SUCCESS;
}

Status require_data(const void* data, const char* name) {
  GPUDNN_REQUIRE(data != nullptr, GPUDNN_STATUS_BAD_PARAM, "%s is null; it must point to memory", name);
  return GPUDNN_STATUS_SUCCESS;
}

Status require_pass_data(const Problem& problem, const Args& args) {
  if (problem.pass == Pass::forward) {
    GPUDNN_TRY(require_data(args.out, "out"));
  } else {
    GPUDNN_TRY(require_data(args.dout, "dout"));
  }
  if (problem.pass == Pass::dgrad) {
    GPUDNN_TRY(require_data(args.dq, "dqueries"));
    GPUDNN_TRY(require_data(args.dk, "dkeys"));
    GPUDNN_TRY(require_data(args.dv, "dvalues"));
  }
  if (weight_bytes(problem.layer) == 0) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_TRY(require_data(args.weights, "weights"));
  return problem.pass == Pass::wgrad ? require_data(args.dweights, "dweights") : GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status validate(const Layer& layer) {
  GPUDNN_TRY(require_types(layer));
  GPUDNN_TRY(require_sizes(layer));
  GPUDNN_REQUIRE(layer.scale >= 0, GPUDNN_STATUS_BAD_PARAM, "smScaler is %g; it must not be negative", layer.scale);
  GPUDNN_TRY(require_probability(layer.attn_dropout, "attnDropoutDesc"));
  return require_probability(layer.post_dropout, "postDropoutDesc");
}

Status validate(const Problem& problem) {
  const Layer& layer = problem.layer;
  GPUDNN_TRY(validate(layer));
  const Sequences& q = problem.q;
  const Sequences& k = problem.k;
  GPUDNN_TRY(require_extents(q, kNames[kQ], {q.time, q.batch, q.beam, layer.size[kQ]}));
  GPUDNN_TRY(require_extents(k, kNames[kK], {k.time, q.batch, layer.one_to_one != 0 ? q.beam : 1, layer.size[kK]}));
  GPUDNN_TRY(require_extents(problem.v, kNames[kV], {k.time, k.batch, k.beam, layer.size[kV]}));
  GPUDNN_TRY(require_extents(problem.o, kNames[kO], {q.time, q.batch, q.beam, layer.out_size()}));
  GPUDNN_TRY(require_at_most(q.time, layer.max_time_q, "time steps of queries", "qoMaxSeqLength"));
  GPUDNN_TRY(require_at_most(k.time, layer.max_time_kv, "time steps of keys", "kvMaxSeqLength"));
  GPUDNN_TRY(require_at_most(q.batch, layer.max_batch, "batches", "maxBatchSize"));
  GPUDNN_TRY(require_at_most(q.beam, layer.max_beam, "beams", "maxBeamSize"));
  GPUDNN_REQUIRE(problem.has_residual == 0 || layer.out_size() == q.size, GPUDNN_STATUS_BAD_PARAM,
                 "residuals are described by qDesc, whose vectors have %d elements; those of out have %lld, and must "
                 "have as many",
                 q.size, static_cast<long long>(layer.out_size()));
  GPUDNN_REQUIRE(problem.current < q.time, GPUDNN_STATUS_BAD_PARAM, "currIdx is %d; qDesc has %d time steps",
                 problem.current, q.time);
  GPUDNN_REQUIRE(problem.current < 0 || problem.training == 0, GPUDNN_STATUS_BAD_PARAM,
                 "currIdx is %d; in training, with a reserve space, it must be negative: all steps", problem.current);
  GPUDNN_REQUIRE(problem.pass == Pass::forward || problem.training != 0, GPUDNN_STATUS_BAD_PARAM,
                 "backward reads the reserve space of a forward call; reserveSpace must not be null");
  return GPUDNN_STATUS_SUCCESS;
}

Status validate(const Problem& problem, const Args& args) {
  GPUDNN_TRY(require_data(args.q, "queries"));
  GPUDNN_TRY(require_data(args.k, "keys"));
  GPUDNN_TRY(require_data(args.v, "values"));
  GPUDNN_TRY(require_pass_data(problem, args));
  if (problem.pass != Pass::wgrad) {
    GPUDNN_TRY(require_data(args.first, "loWinIdx"));
    GPUDNN_TRY(require_data(args.end, "hiWinIdx"));
  }
  if (problem.pass == Pass::forward && problem.training != 0) {
    GPUDNN_REQUIRE(problem.layer.attn_dropout == 0 || args.attn_states != nullptr, GPUDNN_STATUS_BAD_PARAM,
                   "attnDropoutDesc drops with probability %g but has no states; set it with memory for them",
                   static_cast<double>(problem.layer.attn_dropout));
    GPUDNN_REQUIRE(problem.layer.post_dropout == 0 || args.post_states != nullptr, GPUDNN_STATUS_BAD_PARAM,
                   "postDropoutDesc drops with probability %g but has no states; set it with memory for them",
                   static_cast<double>(problem.layer.post_dropout));
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::mha
