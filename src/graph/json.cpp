// The saved forms of plans, devices and caches: small JSON texts, complete in themselves.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <map>

#include "gpudnn/version.h"
#include "graph/plan.hpp"

namespace gpudnn::graph {
namespace {

// The format of a saved plan: a library reads its own format alone.
constexpr std::int64_t kFormat = 1;

// A value of the JSON that this library writes: text, integers, objects and lists of objects.
struct Json {
  std::string text;
  std::int64_t number = 0;
  std::map<std::string, Json> fields;
  std::vector<Json> items;

  [[nodiscard]] const Json* find(const char* name) const {
    const auto at = fields.find(name);
    return at == fields.end() ? nullptr : &at->second;
  }
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool read(Json* value) { return read_value(value, 0) && (skip(), text_.empty()); }

 private:
  static constexpr int kDeepest = 8;

  void skip() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n' || text_.front() == '\t' ||
                              text_.front() == '\r' || text_.front() == '\0'))
      text_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool read_text(std::string* out) {
    if (!take('"')) return false;
    while (!text_.empty() && text_.front() != '"') {
      char c = text_.front();
      text_.remove_prefix(1);
      if (c == '\\') {
        if (text_.empty()) return false;
        c = text_.front() == 'n' ? '\n' : text_.front();
        text_.remove_prefix(1);
      }
      *out += c;
    }
    return take('"');
  }
  bool read_number(std::int64_t* out) {
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), *out);
    if (error != std::errc{}) return false;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return true;
  }
  bool read_value(Json* value, int depth) {
    skip();
    if (text_.empty() || depth > kDeepest) return false;
    if (text_.front() == '"') return read_text(&value->text);
    if (take('[')) {
      if (take(']')) return true;
      do {
        if (!read_value(&value->items.emplace_back(), depth + 1)) return false;
      } while (take(','));
      return take(']');
    }
    if (!take('{')) return read_number(&value->number);
    if (take('}')) return true;
    do {
      std::string name;
      skip();
      if (!read_text(&name) || !take(':') || !read_value(&value->fields[name], depth + 1)) return false;
    } while (take(','));
    return take('}');
  }

  std::string_view text_;
};

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

Status require_field(const Json& json, const char* name, const Json** field) {
  *field = json.find(name);
  GPUDNN_REQUIRE(*field != nullptr, GPUDNN_STATUS_BAD_PARAM, "the JSON text has no field \"%s\"", name);
  return GPUDNN_STATUS_SUCCESS;
}

Status parse(std::string_view text, const char* kind, Json* json) {
  GPUDNN_REQUIRE(Reader(text).read(json), GPUDNN_STATUS_BAD_PARAM,
                 "the text given as JSON_REPRESENTATION is no JSON of this library");
  const Json* field = nullptr;
  GPUDNN_TRY(require_field(*json, "kind", &field));
  GPUDNN_REQUIRE(field->text == kind, GPUDNN_STATUS_BAD_PARAM, "the JSON text is a %s; it must be a %s",
                 field->text.c_str(), kind);
  GPUDNN_TRY(require_field(*json, "format", &field));
  GPUDNN_REQUIRE(field->number == kFormat, GPUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH,
                 "the JSON text has format %lld; this library reads %lld", static_cast<long long>(field->number),
                 static_cast<long long>(kFormat));
  return GPUDNN_STATUS_SUCCESS;
}

std::string head(const char* kind) {
  return std::string("{\"kind\":\"") + kind + "\",\"format\":" + std::to_string(kFormat) +
         ",\"version\":" + std::to_string(GPUDNN_VERSION);
}

Status read_device(const Json& json, DeviceRef* out) {
  auto device = std::make_shared<Device>();
  const Json* field = nullptr;
  GPUDNN_TRY(require_field(json, "backend", &field));
  GPUDNN_REQUIRE(field->text == "cuda" || field->text == "host", GPUDNN_STATUS_BAD_PARAM,
                 "the device's backend is '%s'; it must be cuda or host", field->text.c_str());
  device->backend = field->text == "cuda" ? GPUDNN_BACKEND_CUDA : GPUDNN_BACKEND_HOST;
  GPUDNN_TRY(require_field(json, "name", &field));
  device->name = field->text;
  const auto number = [&json](const char* name, std::int64_t most, std::int64_t* value) -> Status {
    const Json* at = nullptr;
    GPUDNN_TRY(require_field(json, name, &at));
    GPUDNN_REQUIRE(at->number >= 0 && at->number <= most, GPUDNN_STATUS_BAD_PARAM, "the device's %s is %lld", name,
                   static_cast<long long>(at->number));
    *value = at->number;
    return GPUDNN_STATUS_SUCCESS;
  };
  std::int64_t value = 0;
  GPUDNN_TRY(number("major", 99, &value));
  device->major = static_cast<int>(value);
  GPUDNN_TRY(number("minor", 9, &value));
  device->minor = static_cast<int>(value);
  GPUDNN_TRY(number("multiprocessors", 4096, &value));
  GPUDNN_REQUIRE(value > 0 || device->backend == GPUDNN_BACKEND_HOST, GPUDNN_STATUS_BAD_PARAM,
                 "the device has no multiprocessors");
  device->multiprocessors = static_cast<int>(value);
  GPUDNN_TRY(number("shared_memory_per_block", 1 << 30, &value));
  device->shared_memory_per_block = static_cast<std::size_t>(value);
  GPUDNN_TRY(number("shared_memory_per_multiprocessor", 1 << 30, &value));
  device->shared_memory_per_multiprocessor = static_cast<std::size_t>(value);
  GPUDNN_TRY(number("l2_bytes", std::int64_t{1} << 40, &value));
  device->l2_bytes = static_cast<std::size_t>(value);
  *out = std::move(device);
  return GPUDNN_STATUS_SUCCESS;
}

Status read_plan(const Json& json, const DeviceRef& given, PlanRef* plan) {
  const Json* field = nullptr;
  GPUDNN_TRY(require_field(json, "device", &field));
  DeviceRef device;
  GPUDNN_TRY(read_device(*field, &device));
  if (given != nullptr) {
    GPUDNN_REQUIRE(given->backend == device->backend && given->compute_capability() == device->compute_capability(),
                   GPUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, "the plan was made for %s; it cannot run on %s",
                   device->name.c_str(), given->name.c_str());
    device = given;
  }
  GPUDNN_TRY(require_field(json, "engine", &field));
  const Engine* engine = engine_of_index(field->number);
  GPUDNN_REQUIRE(engine != nullptr && runs_on(*engine, *device), GPUDNN_STATUS_NOT_SUPPORTED,
                 "the plan's engine %lld does not exist on %s", static_cast<long long>(field->number),
                 device->name.c_str());
  GPUDNN_TRY(require_field(json, "graph", &field));
  std::string why;
  const std::optional<Graph> graph = from_text(field->text, &why);
  GPUDNN_REQUIRE(graph.has_value(), GPUDNN_STATUS_BAD_PARAM, "the plan's graph cannot be read: %s", why.c_str());
  Knobs wanted;
  GPUDNN_TRY(require_field(json, "knobs", &field));
  for (const auto& [name, value] : field->fields) {
    Knob knob{-1, value.number};
    std::from_chars(name.data(), name.data() + name.size(), knob.type);
    wanted.push_back(knob);
  }
  const auto working = std::make_shared<Graph>(without_dead_operations(*graph));
  const std::vector<Config> configs = engine->configs(*engine, *working, *device, &why);
  const Config* config = find_config(configs, wanted);
  GPUDNN_REQUIRE(config != nullptr, GPUDNN_STATUS_NOT_SUPPORTED,
                 "engine %s does not take the plan's graph and knobs: %s", engine->name, why.c_str());
  return make_plan(working, *engine, device, config->knobs, plan);
}

}  // namespace

std::string device_json(const Device& device) {
  return head("device") + ",\"backend\":\"" + (device.backend == GPUDNN_BACKEND_CUDA ? "cuda" : "host") +
         "\",\"name\":" + quoted(device.name) + ",\"major\":" + std::to_string(device.major) +
         ",\"minor\":" + std::to_string(device.minor) +
         ",\"multiprocessors\":" + std::to_string(device.multiprocessors) +
         ",\"shared_memory_per_block\":" + std::to_string(device.shared_memory_per_block) +
         ",\"shared_memory_per_multiprocessor\":" + std::to_string(device.shared_memory_per_multiprocessor) +
         ",\"l2_bytes\":" + std::to_string(device.l2_bytes) + "}";
}

Status device_from_json(std::string_view text, DeviceRef* device) {
  Json json;
  GPUDNN_TRY(parse(text, "device", &json));
  return read_device(json, device);
}

std::string plan_json(const Plan& plan) {
  std::string knobs;
  for (const Knob& knob : plan.knobs) {
    if (!knobs.empty()) knobs += ",";
    knobs += "\"" + std::to_string(knob.type) + "\":" + std::to_string(knob.value);
  }
  return head("plan") + ",\"engine\":" + std::to_string(plan.engine->index) + ",\"name\":" + quoted(plan.engine->name) +
         ",\"knobs\":{" + knobs + "},\"device\":" + device_json(*plan.device) +
         ",\"graph\":" + quoted(to_text(*plan.graph)) + "}";
}

Status plan_from_json(std::string_view text, const DeviceRef& device, PlanRef* plan) {
  Json json;
  GPUDNN_TRY(parse(text, "plan", &json));
  return read_plan(json, device, plan);
}

std::string store_json(const PlanStore& store) {
  std::string plans;
  for (const PlanRef& plan : store.all()) {
    if (!plans.empty()) plans += ",";
    plans += plan_json(*plan);
  }
  return head("cache") + ",\"plans\":[" + plans + "]}";
}

Status store_from_json(std::string_view text, PlanStore* store) {
  Json json;
  GPUDNN_TRY(parse(text, "cache", &json));
  const Json* field = nullptr;
  GPUDNN_TRY(require_field(json, "plans", &field));
  for (const Json& one : field->items) {
    PlanRef plan;
    GPUDNN_TRY(read_plan(one, nullptr, &plan));
    store->keep(plan_key(*plan->graph, *plan->engine, plan->knobs), plan);
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
