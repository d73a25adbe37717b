// The numbers by value of one execution of attention: what the match assumed of them, and what they make of the
// problem.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "graph/attention_match.hpp"
#include "graph/interpret/element.hpp"
#include "graph/match.hpp"

namespace gpudnn::graph {
namespace {}  // namespace

bool bind_values(const Graph& graph, const AttentionMatch& match, void* const* data, attention::Problem* problem,
                 std::string* why) {
  const auto uid = [&](int place) { return std::to_string(tensor_at(graph, place).uid); };
  const auto number = [&](int place) { return loader_of(tensor_at(graph, place).geometry.type)(data[place], 0); };
  const auto present = [&](const std::vector<int>& places) {
    return std::all_of(places.begin(), places.end(), [&](int place) { return data[place] != nullptr; });
  };
  problem->scale = 1;
  if (!present(match.scales) || !present(match.hidden)) return no_match(why, "a number by value has a null pointer");
  for (const int place : match.scales) problem->scale *= number(place);
  if (!std::isfinite(problem->scale)) return no_match(why, "the scale of the scores is not finite");
  if (match.soft_cap >= 0) {
    if (!present({match.soft_cap, match.soft_cap_factor})) return no_match(why, "a number by value has a null pointer");
    problem->soft_cap = number(match.soft_cap);
    if (!(problem->soft_cap > 0) || number(match.soft_cap_factor) != problem->soft_cap)
      return no_match(why, "tensors " + uid(match.soft_cap) + " and " + uid(match.soft_cap_factor) +
                               " of the soft cap must hold one positive number");
  }
  const auto bound = [&](const std::vector<SignedTerm>& terms, double* sum) {
    *sum = 0;
    for (const SignedTerm& term : terms) {
      if (data[term.place] == nullptr) return no_match(why, "a number by value has a null pointer");
      const double value = number(term.place);
      if (term.integral && value != std::floor(value))
        return no_match(why, "tensor " + uid(term.place) + " adds a fraction to a bound that is an integer");
      *sum += term.sign * value;
    }
    return std::fabs(*sum) < 0x1p40 || no_match(why, "a bound of the scores lies beyond 2^40");
  };
  double right = 0;
  double left = 0;
  if (!bound(match.right, &right) || !bound(match.left, &left)) return false;
  problem->right = static_cast<std::int64_t>(match.right_strict ? std::ceil(right) - 1 : std::floor(right));
  problem->left = static_cast<std::int64_t>(match.left_inclusive ? std::floor(left) + 1 : std::ceil(left));
  // Where every row sees a column, what hides the others need only be far below any score.
  const bool all_see = problem->has_right != 0 && problem->right >= 0 && problem->has_left == 0 &&
                       problem->bottom_right == 0 && problem->has_length_kv == 0;
  const double hides = all_see ? -1e9 : -static_cast<double>(FLT_MAX);
  for (const int place : match.hidden)
    if (!(number(place) <= hides))
      return no_match(why, "tensor " + uid(place) + " holds " + std::to_string(number(place)) +
                               "; scores are hidden by minus infinity, or by the lowest float (by -1e9, where every "
                               "row sees a column)");
  for (const AttentionMatch::Factors& factors : match.factors) {
    if (!present(factors.places)) return no_match(why, "a number by value has a null pointer");
    double product = 1;
    for (const int place : factors.places) product *= number(place);
    const double expected =
        std::pow(1 - problem->dropout, -factors.keep_power) * (factors.scale_power != 0 ? problem->scale : 1);
    if (!(std::fabs(product - expected) <= 1e-4 * std::fabs(expected)))
      return no_match(why, std::string(factors.what) + " is " + std::to_string(product) + "; it must be " +
                               std::to_string(expected));
  }
  return true;
}

}  // namespace gpudnn::graph
