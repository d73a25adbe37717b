// Measures one problem on one library, or on two side by side.
// SPDX-License-Identifier: Apache-2.0
#include "measure.hpp"

#include <chrono>
#include <cmath>
#include <cstring>

#include "data.hpp"
#include "limits.hpp"

namespace gpudnn::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A choice, ready to be called.
struct Candidate {
  Choice choice;
  Buffer workspace;
  Call call;
  Timing timing;
};

// One library's part in a measurement.
struct Subject {
  const Library* library = nullptr;
  gpudnnHandle_t handle = nullptr;
  bool own_handle = false;
  Buffer output;
  std::vector<Buffer> more_outputs;
  std::unique_ptr<Run> run;
  std::vector<Candidate> candidates;
  std::size_t best = 0;
  Side side;

  Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  ~Subject() {
    run.reset();
    if (own_handle) (void)library->api.Destroy(handle);
  }
  // Keeps the reason; true if there is none.
  bool accept(gpudnnStatus_t status) {
    if (status != GPUDNN_STATUS_SUCCESS && side.failure.empty()) side.failure = failure_text(*library, status);
    return status == GPUDNN_STATUS_SUCCESS;
  }
};

struct Inputs {
  std::vector<Buffer> buffers;
  [[nodiscard]] Pointers pointers(const Buffer& output, const std::vector<Buffer>& more) const {
    Pointers pointers;
    for (const Buffer& buffer : buffers) pointers.inputs.push_back(buffer.get());
    pointers.output = output.get();
    for (const Buffer& buffer : more) pointers.more_outputs.push_back(buffer.get());
    return pointers;
  }
};

// Before a call whose result is looked at: NaN where the call must write, data where it must read.
void reset_output(Machine& machine, const Task& task, const Buffer& output) {
  poison(machine, output);
  if (task.output_is_read) fill(machine, task.output, output.get(), Fill::normal, 77);
}

void reset_outputs(Machine& machine, const Task& task, const Buffer& output, const std::vector<Buffer>& more) {
  reset_output(machine, task, output);
  for (std::size_t i = 0; i < more.size(); ++i) {
    const MoreOutput& what = task.more_outputs[i];
    poison(machine, more[i]);
    if (what.is_read) fill(machine, what.geometry, more[i].get(), what.fill, static_cast<unsigned>(78 + i));
  }
}
std::vector<Buffer> make_more_outputs(Machine& machine, const Task& task) {
  std::vector<Buffer> buffers;
  for (const MoreOutput& output : task.more_outputs) buffers.emplace_back(machine, size_in_bytes(output.geometry));
  return buffers;
}

// Runs a task once with the heuristic's choice.
gpudnnStatus_t run_plainly(Machine& machine, const Library& library, const Task& task, const Pointers& pointers,
                           std::size_t workspace_limit) {
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  const auto run = make_run(library, library.handle, task, pointers, &status);
  if (run == nullptr) return status;
  Choice choice;
  if (status = run->query(workspace_limit, &choice); status != GPUDNN_STATUS_SUCCESS) return status;
  const Buffer workspace(machine, choice.workspace);
  Call call;
  if (status = run->bind(choice, workspace.get(), &call); status != GPUDNN_STATUS_SUCCESS) return status;
  status = call();
  machine.synchronize();
  return status;
}

Inputs make_inputs(Machine& machine, const Library& library, const Library* other, const Task& task) {
  Inputs inputs;
  for (const Operand& operand : task.inputs) {
    inputs.buffers.emplace_back(machine, size_in_bytes(operand.geometry));
    if (!operand.integers.empty()) {
      machine.upload(inputs.buffers.back().get(), operand.integers.data(),
                     operand.integers.size() * sizeof operand.integers[0]);
      continue;
    }
    fill(machine, operand.geometry, inputs.buffers.back().get(), operand.fill,
         static_cast<unsigned>(inputs.buffers.size()));
  }
  if (task.forward == nullptr) return inputs;
  const Task& forward = *task.forward;
  Buffer scratch;
  Pointers pointers;
  if (task.forward_input >= 0) {
    pointers.inputs = {inputs.buffers[static_cast<std::size_t>(task.forward_input)].get()};
  } else {
    scratch = Buffer(machine, size_in_bytes(forward.inputs[0].geometry));
    fill(machine, forward.inputs[0].geometry, scratch.get(), forward.inputs[0].fill, 99);
    pointers.inputs = {scratch.get()};
  }
  pointers.output = inputs.buffers[static_cast<std::size_t>(task.forward_output)].get();
  // A library that refuses leaves random data, and the other may still do it.
  if (run_plainly(machine, library, forward, pointers, 0) != GPUDNN_STATUS_SUCCESS && other != nullptr) {
    (void)run_plainly(machine, *other, forward, pointers, 0);
  }
  return inputs;
}

bool add_candidate(Machine& machine, Subject* subject, const Choice& choice) {
  Candidate candidate;
  candidate.choice = choice;
  candidate.workspace = Buffer(machine, choice.workspace);
  if (!subject->accept(subject->run->bind(choice, candidate.workspace.get(), &candidate.call))) return false;
  subject->candidates.push_back(std::move(candidate));
  return true;
}

// The handle, the descriptors, and the heuristic's choice as the first candidate.
bool prepare(Machine& machine, const Task& task, const Inputs& inputs, const MeasureOptions& options,
             Subject* subject) {
  const Api& api = subject->library->api;
  subject->handle = subject->library->handle;
  subject->output = Buffer(machine, size_in_bytes(task.output));
  subject->more_outputs = make_more_outputs(machine, task);
  reset_outputs(machine, task, subject->output, subject->more_outputs);
  machine.synchronize();
  if (options.first_call) {
    if (!subject->accept(api.Create(&subject->handle))) return false;
    subject->own_handle = true;
    if (!subject->accept(api.SetStream(subject->handle, machine.stream()))) return false;
  }
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  subject->run = make_run(*subject->library, subject->handle, task,
                          inputs.pointers(subject->output, subject->more_outputs), &status);
  if (!subject->accept(status)) return false;
  Choice choice;
  const auto start = Clock::now();
  status = subject->run->query(options.workspace_limit, &choice);
  if (subject->run->has_choice()) subject->side.first_query_seconds = seconds_since(start);
  if (!subject->accept(status) || !add_candidate(machine, subject, choice)) return false;
  subject->side.heuristic_algorithm = choice.algorithm;
  if (options.first_call) {
    const auto before = Clock::now();
    if (!subject->accept(subject->candidates[0].call())) return false;
    machine.synchronize();
    subject->side.first_call_seconds = seconds_since(before);
  }
  return true;
}

// Find's choice as a second candidate, where it is another one. That Find fails is no failure of the heuristic's
// choice.
void add_found(Machine& machine, const MeasureOptions& options, Subject* subject) {
  if (!subject->run->has_choice()) return;
  Choice choice;
  {
    const Buffer workspace(machine, options.workspace_limit);
    if (subject->run->find(workspace.get(), workspace.bytes(), &choice) != GPUDNN_STATUS_SUCCESS) return;
    machine.synchronize();
  }
  subject->side.find_algorithm = choice.algorithm;
  const Choice& first = subject->candidates[0].choice;
  if (choice.number != first.number || choice.math != first.math) (void)add_candidate(machine, subject, choice);
}

// Times all candidates of all subjects in one interleaving, and keeps each subject's fastest.
void time_candidates(Machine& machine, const MeasureOptions& options, const std::vector<Subject*>& subjects) {
  std::vector<Call> calls;
  for (const Subject* subject : subjects) {
    for (const Candidate& candidate : subject->candidates) calls.push_back(candidate.call);
  }
  const std::vector<Timing> timings = machine.time_interleaved(calls, options.repeats);
  std::size_t next = 0;
  for (Subject* subject : subjects) {
    Side& side = subject->side;
    bool any = false;
    for (std::size_t i = 0; i < subject->candidates.size(); ++i) {
      Candidate& candidate = subject->candidates[i];
      candidate.timing = timings[next++];
      if (candidate.timing.repeats == 0) continue;
      if (!any || candidate.timing.seconds < subject->candidates[subject->best].timing.seconds) subject->best = i;
      any = true;
      (candidate.choice.by_find ? side.find_seconds : side.heuristic_seconds) = candidate.timing.seconds;
    }
    if (!any) {
      subject->accept(subject->candidates[0].timing.status);
      continue;
    }
    // Find and the heuristic agree: one time stands for both.
    if (!side.find_algorithm.empty() && subject->candidates.size() == 1) side.find_seconds = side.heuristic_seconds;
    side.choice = subject->candidates[subject->best].choice;
    side.timing = subject->candidates[subject->best].timing;
  }
}

// The library's log names the engine of each call: " | engine=NAME -> SUCCESS ...".
void take_engine(gpudnnSeverity_t, void* engine, const gpudnnDebug_t*, const char* message) {
  const char* at = std::strstr(message, "engine=");
  if (at == nullptr) return;
  at += std::strlen("engine=");
  static_cast<std::string*>(engine)->assign(at, std::strcspn(at, " "));
}

std::vector<std::byte> contents(Machine& machine, const Buffer& buffer) {
  std::vector<std::byte> values(buffer.bytes());
  machine.download(values.data(), buffer.get(), values.size());
  return values;
}

// One more call on fresh outputs, of which the first is returned.
std::vector<std::byte> result_of(Machine& machine, const Task& task, Subject* subject) {
  reset_outputs(machine, task, subject->output, subject->more_outputs);
  machine.synchronize();
  const Api& api = subject->library->api;
  const bool logged = subject->library->prefix == "gpudnn" && api.SetCallback != nullptr;
  if (logged) (void)api.SetCallback(GPUDNN_SEV_INFO_EN, &subject->side.engine, take_engine);
  const bool done = subject->accept(subject->candidates[subject->best].call());
  if (logged) (void)api.SetCallback(0, nullptr, nullptr);
  machine.synchronize();
  return done ? contents(machine, subject->output) : std::vector<std::byte>();
}

// What to compare with: `timed`, the result of the timed choice, or, where that one transforms its data and so has an
// error of its own, the result of the library's implicit GEMM in one untimed call. Where none runs, `timed` stands.
std::vector<std::byte> reference_of(Machine& machine, const Task& task, std::size_t workspace_limit,
                                    std::vector<std::byte> timed, Subject* subject) {
  for (const Choice& choice : subject->run->untransformed(subject->side.choice, workspace_limit)) {
    reset_output(machine, task, subject->output);
    const Buffer workspace(machine, choice.workspace);
    machine.synchronize();
    Call call;
    if (subject->run->bind(choice, workspace.get(), &call) != GPUDNN_STATUS_SUCCESS) continue;
    if (call() != GPUDNN_STATUS_SUCCESS) continue;
    machine.synchronize();
    subject->side.compared_algorithm = choice.algorithm;
    machine.download(timed.data(), subject->output.get(), timed.size());
    break;
  }
  return timed;
}

void measure_host(Machine& machine, const MeasureOptions& options, Subject* subject) {
  const Candidate& best = subject->candidates[subject->best];
  if (!machine.is_host()) {
    subject->side.host_seconds = host_seconds_per_call(machine, best.call, options.host_calls);
  }
  if (!options.query || !subject->run->has_choice()) return;
  const Call query = [&] {
    Choice ignored;
    return subject->run->query(options.workspace_limit, &ignored);
  };
  subject->side.query_seconds = host_seconds_per_call(machine, query, 50);
}

// Keeps the greatest error of all outputs. `number` 0 is the first one.
void note_error(double error, int number, Row* row) {
  if (number > 0 && error <= row->relative_error) return;
  row->relative_error = error;
  row->worst_output = number;
  row->mismatch = row->mismatch || !(error <= row->bound);
}

// Compares with one call of the reference on copies of the inputs. `a` is the first output as ours left it.
void check_by_reference(Machine& machine, const Task& task, const Inputs& inputs, const Reference& reference,
                        const std::vector<std::byte>& a, const Subject& ours, Row* row) {
  if (!is_comparable(task.output.type) || task.output_is_random)
    return (void)(row->check = "NaN only: nothing to compare");
  if (!is_cheap_to_check(task)) return (void)(row->check = "NaN only: large");
  Machine& host = *reference.machine;
  Inputs copies;
  for (const Buffer& buffer : inputs.buffers) {
    copies.buffers.emplace_back(host, buffer.bytes());
    machine.download(copies.buffers.back().get(), buffer.get(), buffer.bytes());
  }
  const Buffer output(host, size_in_bytes(task.output));
  const std::vector<Buffer> more = make_more_outputs(host, task);
  reset_outputs(host, task, output, more);
  constexpr std::size_t kAnyWorkspace = std::size_t{1} << 30;
  const gpudnnStatus_t status =
      run_plainly(host, *reference.library, task, copies.pointers(output, more), kAnyWorkspace);
  if (status != GPUDNN_STATUS_SUCCESS) {
    row->check = "NaN only: the reference says " + failure_text(*reference.library, status);
    return;
  }
  row->check = "reference";
  row->bound = agreement_bound(task);
  note_error(relative_error(task.output, a, contents(host, output)), 0, row);
  for (std::size_t i = 0; i < task.more_outputs.size(); ++i) {
    note_error(
        relative_error(task.more_outputs[i].geometry, contents(machine, ours.more_outputs[i]), contents(host, more[i])),
        static_cast<int>(i) + 1, row);
  }
}

// The result of a convolution of floats in double, on the same inputs and the same machine. Empty if there is none.
std::vector<std::byte> result_in_double(Machine& machine, const Library& library, const Task& task,
                                        const Inputs& inputs) {
  const auto at = task.text.find(" f32 ");
  if (!task.text.starts_with("conv ") || at == std::string::npos) return {};
  std::string text = std::string(task.text).replace(at, 5, " f64 ");
  if (const auto sums = text.find(" acc=f32"); sums != std::string::npos) text.replace(sums, 8, " acc=f64");
  std::string why;
  const std::optional<Task> in_double = parse_task(text, ScalarOptions{.alpha = task.alpha, .beta = task.beta}, &why);
  if (!in_double) return {};
  Inputs copies;
  for (const Buffer& buffer : inputs.buffers) {
    const std::vector<std::byte> bytes = contents(machine, buffer);
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    const std::vector<double> doubles(floats.begin(), floats.end());
    copies.buffers.emplace_back(machine, doubles.size() * sizeof(double));
    machine.upload(copies.buffers.back().get(), doubles.data(), copies.buffers.back().bytes());
  }
  const Buffer output(machine, size_in_bytes(in_double->output));
  constexpr std::size_t kAnyWorkspace = std::size_t{1} << 30;
  const gpudnnStatus_t status = run_plainly(machine, library, *in_double, copies.pointers(output, {}), kAnyWorkspace);
  return status == GPUDNN_STATUS_SUCCESS ? contents(machine, output) : std::vector<std::byte>();
}

void check_results(Machine& machine, const Task& task, const Inputs& inputs, const MeasureOptions& options,
                   Subject* ours, Subject* theirs, Row* row) {
  row->check = "none";
  if (!ours->side.ok()) return;
  const std::vector<std::byte> a = result_of(machine, task, ours);
  if (!ours->side.ok()) return;
  row->check = "NaN only";
  row->nan_count = count_nan(task.output, a);
  for (std::size_t i = 0; i < task.more_outputs.size(); ++i) {
    row->nan_count += count_nan(task.more_outputs[i].geometry, contents(machine, ours->more_outputs[i]));
  }
  row->mismatch = row->nan_count > 0;
  if (theirs == nullptr && options.reference != nullptr) {
    check_by_reference(machine, task, inputs, *options.reference, a, *ours, row);
  }
  if (theirs == nullptr || !theirs->side.ok() || !is_comparable(task.output.type) || task.output_is_random) return;
  std::vector<std::byte> b = result_of(machine, task, theirs);
  if (!theirs->side.ok()) return;
  if (options.errors && task.beta == 0) {
    const std::vector<std::byte> exact = result_in_double(machine, *ours->library, task, inputs);
    row->has_errors = !exact.empty();
    if (row->has_errors) {
      row->our_errors = errors_of_floats(task.output, a, exact);
      row->their_errors = errors_of_floats(task.output, b, exact);
    }
  }
  b = reference_of(machine, task, options.workspace_limit, std::move(b), theirs);
  row->bound = agreement_bound(task);
  note_error(relative_error(task.output, a, b), 0, row);
  for (std::size_t i = 0; i < task.more_outputs.size(); ++i) {
    note_error(relative_error(task.more_outputs[i].geometry, contents(machine, ours->more_outputs[i]),
                              contents(machine, theirs->more_outputs[i])),
               static_cast<int>(i) + 1, row);
  }
}

}  // namespace

Row measure(Machine& machine, const Library& ours, const Library* theirs, const Task& task,
            const MeasureOptions& options) {
  Row row;
  row.task = &task;
  row.against = theirs != nullptr;
  const Inputs inputs = make_inputs(machine, ours, theirs, task);
  Subject first;
  Subject second;
  first.library = &ours;
  second.library = theirs;
  std::vector<Subject*> ready;
  for (Subject* subject : {&first, &second}) {
    if (subject->library == nullptr || !prepare(machine, task, inputs, options, subject)) continue;
    if (subject == &second || options.find) add_found(machine, options, subject);
    ready.push_back(subject);
  }
  time_candidates(machine, options, ready);
  for (Subject* subject : ready) {
    if (subject->side.ok()) measure_host(machine, options, subject);
  }
  if (options.check) check_results(machine, task, inputs, options, &first, theirs != nullptr ? &second : nullptr, &row);
  row.ours = std::move(first.side);
  row.theirs = std::move(second.side);
  return row;
}

namespace {

struct Prepared : ReadyCall {
  Task task;
  Inputs inputs;
  Buffer output, workspace;
  std::vector<Buffer> more;
  std::unique_ptr<Run> run;
  Call bound;
  [[nodiscard]] const Call& call() const override { return bound; }
};

}  // namespace

std::unique_ptr<ReadyCall> ReadyCall::make(Machine& machine, const Library& library, const Task& task,
                                           std::size_t workspace_limit, std::string* why) {
  auto made = std::make_unique<Prepared>();
  made->task = task;
  made->inputs = make_inputs(machine, library, nullptr, task);
  made->output = Buffer(machine, size_in_bytes(task.output));
  made->more = make_more_outputs(machine, task);
  reset_outputs(machine, task, made->output, made->more);
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  made->run = make_run(library, library.handle, made->task, made->inputs.pointers(made->output, made->more), &status);
  Choice choice;
  if (status == GPUDNN_STATUS_SUCCESS) status = made->run->query(workspace_limit, &choice);
  if (status == GPUDNN_STATUS_SUCCESS) {
    made->workspace = Buffer(machine, choice.workspace);
    status = made->run->bind(choice, made->workspace.get(), &made->bound);
  }
  if (status == GPUDNN_STATUS_SUCCESS) return made;
  *why = failure_text(library, status);
  return nullptr;
}

std::string run_once(Machine& machine, const Library& library, const Task& task, const MeasureOptions& options) {
  const Inputs inputs = make_inputs(machine, library, nullptr, task);
  const Buffer output(machine, size_in_bytes(task.output));
  const std::vector<Buffer> more = make_more_outputs(machine, task);
  reset_outputs(machine, task, output, more);
  const gpudnnStatus_t status =
      run_plainly(machine, library, task, inputs.pointers(output, more), options.workspace_limit);
  return status == GPUDNN_STATUS_SUCCESS ? std::string() : failure_text(library, status);
}

}  // namespace gpudnn::bench
