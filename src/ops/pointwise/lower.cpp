// From a program to the steps of the machine that kernels run.
//
// The steps follow the instructions in order. An operand that the accumulator holds costs nothing; one that it does not
// hold is fetched as the second operand, the first one by a step of its own. A result that is wanted after the
// accumulator has moved on is kept in a temporary by the step that made it; temporaries are given out at the end, by
// life times.
// SPDX-License-Identifier: Apache-2.0
#include "ops/pointwise/lower.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/any_type.hpp"

namespace gpudnn::pointwise {
namespace {

using tile::StepFields;
using tile::StepSource;

bool commutes(Op op) noexcept {
  return op == Op::add || op == Op::mul || op == Op::cmp_eq || op == Op::cmp_ne || op == Op::logical_and ||
         op == Op::logical_or;
}

// The form that takes its number from the step, or -1.
int immediate_form(Op op) noexcept {
  switch (op) {
    case Op::add:
    case Op::sub:
      return tile::kStepAddImmediate;
    case Op::mul:
      return tile::kStepMulImmediate;
    case Op::max:
      return tile::kStepMaxImmediate;
    case Op::min:
      return tile::kStepMinImmediate;
    default:
      return -1;
  }
}

bool is_zero_or_one(Op op) { return op == Op::logical_not || (op >= Op::cmp_eq && op <= Op::logical_or); }

// The operation with its operands the other way round, or -1.
int turned_form(Op op) noexcept {
  switch (op) {
    case Op::sub:
      return tile::kStepSubFrom;
    case Op::div:
      return tile::kStepDivFrom;
    case Op::cmp_gt:
      return static_cast<int>(Op::cmp_lt);
    case Op::cmp_ge:
      return static_cast<int>(Op::cmp_le);
    case Op::cmp_lt:
      return static_cast<int>(Op::cmp_gt);
    case Op::cmp_le:
      return static_cast<int>(Op::cmp_ge);
    default:
      return commutes(op) ? static_cast<int>(op) : -1;
  }
}

class Lowering {
 public:
  Lowering(const Program& program, const LowerOptions& options) : program_(program), options_(options) {}

  void run(const DataType* store_type) {
    find_used();
    if (options_.accumulator >= 0) begin_with_accumulator();
    for (int i = 0; i < program_.instructions; ++i) {
      if (used_[i]) instruction(i, store_type);
    }
    const int first = options_.accumulator >= 0 ? 1 : 0;
    for (int o = first; o < program_.stores; ++o) {
      if (!stored_[o]) store(o);
    }
    if (first == 1) end_in_accumulator();
  }

  Status finish(Lowered* lowered) {
    GPUDNN_REQUIRE(steps_.size() <= tile::kProgramSteps, GPUDNN_STATUS_NOT_SUPPORTED,
                   "the program takes %zu steps; a kernel runs up to %d: cut it in two", steps_.size(),
                   tile::kProgramSteps);
    const int temps = give_out_temps();
    GPUDNN_REQUIRE(temps <= options_.most_temps, GPUDNN_STATUS_NOT_SUPPORTED,
                   "the program holds %d results at once; a kernel holds up to %d: cut it in two", temps,
                   options_.most_temps);
    lowered->code.steps = static_cast<int>(steps_.size());
    lowered->code.temps = temps;
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      lowered->code.step[s].word = steps_[s].fields.word();
      std::copy_n(steps_[s].p, 3, lowered->code.step[s].p);
      lowered->scalar[s] = static_cast<std::int8_t>(steps_[s].scalar);
      lowered->negates[s] = steps_[s].negates;
    }
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  struct Step {
    StepFields fields;
    double p[3] = {};
    int scalar = -1;
    bool negates = false;
    int recalls = -1;  // value that a temporary holds
  };
  // Values: results, then constants that a step had to put into the accumulator.
  struct Value {
    int made_by = -1;
    int last_recall = -1;  // step
  };

  bool is_immediate(const Operand& operand) const {
    return operand.kind == OperandKind::constant ||
           (operand.kind == OperandKind::load && program_.load_kind[operand.index] == LoadKind::scalar);
  }

  bool in_accumulator(const Operand& operand) const {
    return !is_immediate(operand) && operand.kind == held_.kind && operand.index == held_.index;
  }

  void find_used() {
    const auto mark = [this](const Operand& operand) {
      if (operand.kind == OperandKind::result) used_[operand.index] = true;
    };
    for (int o = 0; o < program_.stores; ++o) mark(program_.stored[o]);
    for (int i = program_.instructions - 1; i >= 0; --i) {
      for (int j = 0; used_[i] && j < program_.code[i].operands(); ++j) mark(program_.code[i].operand(j));
    }
    for (int i = 0; i < program_.instructions; ++i) {
      for (int j = 0; used_[i] && j < program_.code[i].operands(); ++j) {
        const Operand& operand = program_.code[i].operand(j);
        if (operand.kind == OperandKind::result) feeds_[operand.index] = true;
      }
    }
    values_.resize(static_cast<std::size_t>(program_.instructions));
  }

  // A step that does nothing makes the value that the accumulators hold: it is kept there if it is wanted again.
  void begin_with_accumulator() {
    accumulator_value_ = static_cast<int>(values_.size());
    values_.push_back({0, -1});
    Step step;
    step.fields.op = static_cast<int>(Op::identity);
    steps_.push_back(step);
    held_ = Operand::load(options_.accumulator);
  }

  // The kernel itself stores what is left.
  void end_in_accumulator() { bring(program_.stored[0]); }

  // Lets `step` fetch the operand as its second one.
  void fetch(const Operand& operand, Step* step) {
    if (in_accumulator(operand)) {
      step->fields.source = StepSource::self;
    } else if (is_immediate(operand)) {
      step->fields.source = StepSource::immediate;
      set_immediate(operand, step);
    } else if (operand.kind == OperandKind::load && operand.index == options_.accumulator) {
      recall(accumulator_value_, step);
    } else if (operand.kind == OperandKind::load) {
      step->fields.source = StepSource::input;
      step->fields.slot = operand.index;
    } else {
      recall(operand.index, step);
    }
  }

  void recall(int value, Step* step) {
    step->fields.source = StepSource::temp;
    step->recalls = value;
    values_[value].last_recall = static_cast<int>(steps_.size());
  }

  void set_immediate(const Operand& operand, Step* step) const {
    if (operand.kind == OperandKind::constant) {
      step->p[tile::kStepImmediate] = operand.value;
    } else {
      step->scalar = operand.index;
    }
  }

  void bring(const Operand& operand) {
    if (in_accumulator(operand)) return;
    Step step;
    fetch(operand, &step);
    steps_.push_back(step);
    held_ = operand;
  }

  // A number as a value of its own, in the accumulator.
  Operand as_value(const Operand& number) {
    bring(number);
    values_.push_back({static_cast<int>(steps_.size()) - 1, -1});
    held_ = Operand::result(static_cast<int>(values_.size()) - 1);
    return held_;
  }

  void instruction(int index, const DataType* store_type) {
    const Instruction& from = program_.code[index];
    Step step;
    step.fields.op = static_cast<int>(from.op);
    step.fields.drops_nan = from.params.drops_nan;
    std::copy_n(from.params.p, tile::pointwise_parameters(from.op), step.p);
    if (from.operands() == 3) {
      select(from, &step);
    } else if (from.operands() == 2) {
      binary(from, &step);
    } else {
      bring(from.x);
      if (from.op == Op::relu && from.params.p[2] == 0 && !from.params.drops_nan) clip(&step);
    }
    finish_instruction(index, &step, store_type);
  }

  // ReLU without a slope is a maximum, and a minimum where it has an upper clip: one instruction each in place of six.
  void clip(Step* step) {
    const double upper = step->p[1];
    Step lower;
    lower.fields.op = tile::kStepMaxImmediate;
    lower.p[tile::kStepImmediate] = step->p[0];
    if (std::isinf(upper) || upper >= std::numeric_limits<double>::max()) {
      *step = lower;
      return;
    }
    steps_.push_back(lower);
    step->fields.op = tile::kStepMinImmediate;
    step->p[tile::kStepImmediate] = upper;
  }

  void select(const Instruction& from, Step* step) {
    bring(from.t);
    Step predicate;
    predicate.fields.op = tile::kStepPredicate;
    steps_.push_back(predicate);
    bring(from.x);
    fetch(from.b, step);
  }

  void binary(const Instruction& from, Step* step) {
    Operand x = from.x;
    Operand b = from.b;
    if (tile::pointwise_parameters(from.op) == 3) {
      if (is_immediate(b)) b = as_value(b);
      if (is_immediate(x)) x = as_value(x);
    }
    if (commutes(from.op) && is_immediate(x)) std::swap(x, b);
    if (from.op == Op::sub && is_immediate(x) && !is_immediate(b)) return subtract_from(x, b, step);
    if (is_immediate(b) && immediate_form(from.op) >= 0 && !is_immediate(x)) {
      bring(x);
      step->fields.op = immediate_form(from.op);
      set_immediate(b, step);
      if (from.op == Op::sub) step->negates = true, step->p[tile::kStepImmediate] *= -1;
    } else if (const int turned = !in_accumulator(x) && in_accumulator(b) ? turned_form(from.op) : -1; turned >= 0) {
      step->fields.op = turned;
      fetch(x, step);
    } else {
      bring(x);
      fetch(b, step);
    }
  }

  // number - value = -value + number, bit for bit.
  void subtract_from(const Operand& number, const Operand& value, Step* step) {
    bring(value);
    Step negation;
    negation.fields.op = static_cast<int>(Op::neg);
    steps_.push_back(negation);
    step->fields.op = tile::kStepAddImmediate;
    set_immediate(number, step);
  }

  void finish_instruction(int index, Step* step, const DataType* store_type) {
    int store = -1;
    for (int o = program_.stores - 1; o >= (options_.accumulator >= 0 ? 1 : 0); --o) {
      const Operand& value = program_.stored[o];
      if (value.kind == OperandKind::result && value.index == index) store = o;
    }
    const DataType type = program_.code[index].type;
    const bool widest = type == program_.compute || type == GPUDNN_DATA_DOUBLE;
    const bool rounded_by_store = store >= 0 && !feeds_[index] && type == store_type[store] && stores_of(index) == 1;
    const bool is_exact = is_zero_or_one(program_.code[index].op);  // in every type
    if (!widest && !rounded_by_store && !is_exact) step->fields.round = static_cast<int>(any_type(type)) + 1;
    if (store >= 0) {
      step->fields.store = store + 1;
      stored_[store] = true;
    }
    values_[index].made_by = static_cast<int>(steps_.size());
    steps_.push_back(*step);
    held_ = Operand::result(index);
  }

  int stores_of(int index) const {
    return static_cast<int>(
        std::count_if(program_.stored, program_.stored + program_.stores,
                      [&](const Operand& value) { return value.kind == OperandKind::result && value.index == index; }));
  }

  // A store that no step of an instruction makes: of a load, of a number, of a result that is stored twice.
  void store(int output) {
    held_ = {};
    bring(program_.stored[output]);
    steps_.back().fields.store = output + 1;
    stored_[output] = true;
  }

  // Linear scan over the values that are recalled. A temporary is free for the step that recalls it last: a step
  // recalls before it keeps.
  int give_out_temps() {
    std::vector<int> order;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      if (values_[v].last_recall >= 0) order.push_back(static_cast<int>(v));
    }
    std::sort(order.begin(), order.end(), [this](int a, int b) { return values_[a].made_by < values_[b].made_by; });
    std::vector<int> busy_until;
    std::vector<int> temp_of(values_.size(), -1);
    for (const int v : order) {
      std::size_t temp = 0;
      while (temp < busy_until.size() && busy_until[temp] > values_[v].made_by) ++temp;
      if (temp == busy_until.size()) busy_until.push_back(0);
      busy_until[temp] = values_[v].last_recall;
      temp_of[v] = static_cast<int>(temp);
    }
    if (static_cast<int>(busy_until.size()) > options_.most_temps) return static_cast<int>(busy_until.size());
    for (const int v : order) steps_[values_[v].made_by].fields.keep = temp_of[v] + 1;
    for (Step& step : steps_) {
      if (step.recalls >= 0) step.fields.slot = temp_of[step.recalls];
    }
    return static_cast<int>(busy_until.size());
  }

  const Program& program_;
  const LowerOptions& options_;
  int accumulator_value_ = -1;
  std::vector<Step> steps_;
  std::vector<Value> values_;
  Operand held_;  // by the accumulator
  bool used_[kMaxInstructions] = {};
  bool feeds_[kMaxInstructions] = {};  // an instruction reads it
  bool stored_[kMaxStores] = {};
};

}  // namespace

Status lower(const Program& program, const DataType* store_type, Lowered* lowered, const LowerOptions& options) {
  *lowered = {};
  Lowering lowering(program, options);
  lowering.run(store_type);
  return lowering.finish(lowered);
}

}  // namespace gpudnn::pointwise
