/* Three graphs by the C functions, on whatever backend the handle has: convolution + bias + ReLU, matrix product +
 * GELU, layer normalization. Each goes from tensors to operations, a graph, the heuristic, a plan and its execution;
 * the results are compared with plain loops. 04_graph.cpp does the same by gpudnn.hpp.
 * SPDX-License-Identifier: Apache-2.0 */
#include <gpudnn/gpudnn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef gpudnnBackendDescriptor_t Descriptor;

static void fail(gpudnnStatus_t status, const char* call) {
  char text[1024];
  gpudnnGetLastErrorString(text, sizeof text);
  fprintf(stderr, "%s\n  gave %s: %s\n", call, gpudnnGetErrorString(status), text);
  exit(1);
}
#define CHECK(call)                                             \
  do {                                                          \
    gpudnnStatus_t status_ = (call);                            \
    if (status_ != GPUDNN_STATUS_SUCCESS) fail(status_, #call); \
  } while (0)

/* --- descriptors: created, set attribute by attribute, finalized
 * ------------------------------------------------------ */

static Descriptor create(gpudnnBackendDescriptorType_t kind) {
  Descriptor made = NULL;
  CHECK(gpudnnBackendCreateDescriptor(kind, &made));
  return made;
}

static void set_integers(Descriptor of, gpudnnBackendAttributeName_t name, int64_t count, const int64_t* values) {
  CHECK(gpudnnBackendSetAttribute(of, name, GPUDNN_TYPE_INT64, count, values));
}

static void set_integer(Descriptor of, gpudnnBackendAttributeName_t name, int64_t value) {
  set_integers(of, name, 1, &value);
}

/* Every enumerator is an int; the type says of which enum. */
static void set_enum(Descriptor of, gpudnnBackendAttributeName_t name, gpudnnBackendAttributeType_t type, int value) {
  CHECK(gpudnnBackendSetAttribute(of, name, type, 1, &value));
}

static void set_descriptor(Descriptor of, gpudnnBackendAttributeName_t name, Descriptor value) {
  CHECK(gpudnnBackendSetAttribute(of, name, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value));
}

enum Memory { GIVEN, VIRTUAL, BY_VALUE };

/* A tensor of floats, row-major. VIRTUAL: it lies between two operations and has no memory. BY_VALUE: its pointer is to
 * a number on the host. */
static Descriptor tensor(int64_t id, int rank, const int64_t* dims, enum Memory memory) {
  Descriptor made = create(GPUDNN_BACKEND_TENSOR_DESCRIPTOR);
  int64_t strides[8];
  strides[rank - 1] = 1;
  for (int i = rank - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  set_enum(made, GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, GPUDNN_DATA_FLOAT);
  set_integers(made, GPUDNN_ATTR_TENSOR_DIMENSIONS, rank, dims);
  set_integers(made, GPUDNN_ATTR_TENSOR_STRIDES, rank, strides);
  set_integer(made, GPUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  set_integer(made, GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
  const bool yes = true;
  if (memory == VIRTUAL) {
    CHECK(gpudnnBackendSetAttribute(made, GPUDNN_ATTR_TENSOR_IS_VIRTUAL, GPUDNN_TYPE_BOOLEAN, 1, &yes));
  } else if (memory == BY_VALUE) {
    CHECK(gpudnnBackendSetAttribute(made, GPUDNN_ATTR_TENSOR_IS_BY_VALUE, GPUDNN_TYPE_BOOLEAN, 1, &yes));
  }
  CHECK(gpudnnBackendFinalize(made));
  return made;
}

/* y = mode(x, b); b is NULL where the mode takes one operand. */
static Descriptor pointwise(gpudnnPointwiseMode_t mode, Descriptor x, Descriptor b, Descriptor y) {
  Descriptor how = create(GPUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set_enum(how, GPUDNN_ATTR_POINTWISE_MODE, GPUDNN_TYPE_POINTWISE_MODE, (int)mode);
  set_enum(how, GPUDNN_ATTR_POINTWISE_MATH_PREC, GPUDNN_TYPE_DATA_TYPE, GPUDNN_DATA_FLOAT);
  CHECK(gpudnnBackendFinalize(how));
  Descriptor made = create(GPUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_descriptor(made, GPUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  set_descriptor(made, GPUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != NULL) set_descriptor(made, GPUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  set_descriptor(made, GPUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  CHECK(gpudnnBackendFinalize(made));
  /* A descriptor that is given to another one is shared: it may be destroyed at once. */
  CHECK(gpudnnBackendDestroyDescriptor(how));
  return made;
}

/* --- from operations to a plan, and its execution -------------------------------------------------------------------
 */

/* The heuristic's first choice; NULL, with a word on stdout, where no engine takes the graph. */
static Descriptor make_plan(gpudnnHandle_t handle, int count, const Descriptor* operations) {
  Descriptor graph = create(GPUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  CHECK(gpudnnBackendSetAttribute(graph, GPUDNN_ATTR_OPERATIONGRAPH_OPS, GPUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                  operations));
  CHECK(gpudnnBackendSetAttribute(graph, GPUDNN_ATTR_OPERATIONGRAPH_HANDLE, GPUDNN_TYPE_HANDLE, 1, &handle));
  CHECK(gpudnnBackendFinalize(graph));

  Descriptor heuristic = create(GPUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_descriptor(heuristic, GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set_enum(heuristic, GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, GPUDNN_HEUR_MODE_A);
  CHECK(gpudnnBackendFinalize(heuristic));
  char why_not[1024];
  gpudnnGetLastErrorString(why_not, sizeof why_not);
  Descriptor config = create(GPUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  int64_t found = 0;
  CHECK(gpudnnBackendGetAttribute(heuristic, GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found,
                                  &config));
  Descriptor plan = NULL;
  if (found > 0) {
    plan = create(GPUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_descriptor(plan, GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    CHECK(gpudnnBackendFinalize(plan));
  } else {
    printf("not run: %s\n", why_not);
  }
  CHECK(gpudnnBackendDestroyDescriptor(config));
  CHECK(gpudnnBackendDestroyDescriptor(heuristic));
  CHECK(gpudnnBackendDestroyDescriptor(graph));
  return plan;
}

static void execute(gpudnnHandle_t handle, Descriptor plan, int count, const int64_t* ids, void* const* pointers) {
  int64_t bytes = 0;
  int64_t answered = 0;
  CHECK(gpudnnBackendGetAttribute(plan, GPUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, GPUDNN_TYPE_INT64, 1, &answered,
                                  &bytes));
  void* workspace = NULL;
  CHECK(gpudnnMalloc(handle, &workspace, (size_t)bytes));
  Descriptor pack = create(GPUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set_integers(pack, GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, count, ids);
  CHECK(gpudnnBackendSetAttribute(pack, GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, count, pointers));
  CHECK(gpudnnBackendSetAttribute(pack, GPUDNN_ATTR_VARIANT_PACK_WORKSPACE, GPUDNN_TYPE_VOID_PTR, 1, &workspace));
  CHECK(gpudnnBackendFinalize(pack));
  CHECK(gpudnnBackendExecute(handle, plan, pack));
  CHECK(gpudnnBackendDestroyDescriptor(pack));
  CHECK(gpudnnFree(handle, workspace));
}

/* --- data
 * ------------------------------------------------------------------------------------------------------------- */

enum { MAX_TENSORS = 6 };

/* What a graph works on: the ids of its tensors, their numbers on the host, and their memory where the handle computes.
 */
typedef struct {
  gpudnnHandle_t handle;
  int count;
  int64_t ids[MAX_TENSORS];
  float* host[MAX_TENSORS];
  void* device[MAX_TENSORS];
} Data;

/* Memory of a tensor, with numbers between -1 and 1 that are the same at every run. Returns them. */
static float* add(Data* data, int64_t id, size_t count) {
  const int i = data->count++;
  uint32_t state = (uint32_t)id;
  data->ids[i] = id;
  data->host[i] = malloc(count * sizeof(float));
  if (data->host[i] == NULL) exit(1);
  for (size_t k = 0; k < count; ++k) {
    state = state * 1664525u + 1013904223u;
    data->host[i][k] = (float)(state >> 8) / (1 << 23) - 1;
  }
  CHECK(gpudnnMalloc(data->handle, &data->device[i], count * sizeof(float)));
  CHECK(
      gpudnnMemcpy(data->handle, data->device[i], data->host[i], count * sizeof(float), GPUDNN_MEMCPY_HOST_TO_DEVICE));
  return data->host[i];
}

static void release(Data* data) {
  for (int i = 0; i < data->count; ++i) {
    free(data->host[i]);
    CHECK(gpudnnFree(data->handle, data->device[i]));
  }
}

/* Runs the plan of the operations, compares the last tensor of the data with `wanted`, and ends them all. */
static bool run(const char* what, Data* data, int64_t by_value_id, float* by_value, int operation_count,
                Descriptor* operations, size_t count, const float* wanted) {
  Descriptor plan = make_plan(data->handle, operation_count, operations);
  for (int i = 0; i < operation_count; ++i) CHECK(gpudnnBackendDestroyDescriptor(operations[i]));
  if (plan == NULL) return true;
  int64_t ids[MAX_TENSORS + 1];
  void* pointers[MAX_TENSORS + 1];
  int bound = 0;
  for (; bound < data->count; ++bound) {
    ids[bound] = data->ids[bound];
    pointers[bound] = data->device[bound];
  }
  if (by_value != NULL) {
    ids[bound] = by_value_id;
    pointers[bound++] = by_value;
  }
  execute(data->handle, plan, bound, ids, pointers);
  CHECK(gpudnnBackendDestroyDescriptor(plan));
  float* found = data->host[data->count - 1];
  CHECK(gpudnnMemcpy(data->handle, found, data->device[data->count - 1], count * sizeof(float),
                     GPUDNN_MEMCPY_DEVICE_TO_HOST));
  float worst = 0;
  bool good = true;
  for (size_t i = 0; i < count; ++i) {
    const float difference = fabsf(found[i] - wanted[i]);
    worst = fmaxf(worst, difference);
    good = good && difference < 1e-4f; /* not if it is NaN */
  }
  const float* some = found + count / 2;
  printf("%-28s some values %8.5f %8.5f %8.5f, greatest difference %.1e: %s\n", what, (double)some[0], (double)some[1],
         (double)some[2], (double)worst, good ? "ok" : "WRONG");
  return good;
}

static void destroy_all(int count, Descriptor* descriptors) {
  for (int i = 0; i < count; ++i) CHECK(gpudnnBackendDestroyDescriptor(descriptors[i]));
}

/* --- the three graphs
 * ------------------------------------------------------------------------------------------------- */

static bool convolution_bias_relu(gpudnnHandle_t handle) {
  enum { N = 2, C = 8, K = 16, SIZE = 12, OUTPUTS = N * K * SIZE * SIZE };
  const int64_t x_dims[] = {N, C, SIZE, SIZE}, w_dims[] = {K, C, 3, 3}, b_dims[] = {1, K, 1, 1},
                y_dims[] = {N, K, SIZE, SIZE};
  Descriptor t[] = {tensor(1, 4, x_dims, GIVEN),   tensor(2, 4, w_dims, GIVEN),   tensor(3, 4, b_dims, GIVEN),
                    tensor(4, 4, y_dims, VIRTUAL), tensor(5, 4, y_dims, VIRTUAL), tensor(6, 4, y_dims, GIVEN)};

  const int64_t ones[] = {1, 1};
  Descriptor how = create(GPUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set_enum(how, GPUDNN_ATTR_CONVOLUTION_COMP_TYPE, GPUDNN_TYPE_DATA_TYPE, GPUDNN_DATA_FLOAT);
  set_enum(how, GPUDNN_ATTR_CONVOLUTION_CONV_MODE, GPUDNN_TYPE_CONVOLUTION_MODE, GPUDNN_CROSS_CORRELATION);
  set_integer(how, GPUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  set_integers(how, GPUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2, ones);
  set_integers(how, GPUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2, ones);
  set_integers(how, GPUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2, ones);
  set_integers(how, GPUDNN_ATTR_CONVOLUTION_DILATIONS, 2, ones);
  CHECK(gpudnnBackendFinalize(how));
  Descriptor convolution = create(GPUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  set_descriptor(convolution, GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how);
  set_descriptor(convolution, GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, t[0]);
  set_descriptor(convolution, GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, t[1]);
  set_descriptor(convolution, GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, t[3]);
  CHECK(gpudnnBackendFinalize(convolution));
  CHECK(gpudnnBackendDestroyDescriptor(how));
  Descriptor operations[] = {convolution, pointwise(GPUDNN_POINTWISE_ADD, t[3], t[2], t[4]),
                             pointwise(GPUDNN_POINTWISE_RELU_FWD, t[4], NULL, t[5])};
  destroy_all(6, t);

  Data data = {.handle = handle};
  const float* x = add(&data, 1, N * C * SIZE * SIZE);
  const float* w = add(&data, 2, K * C * 9);
  const float* bias = add(&data, 3, K);
  add(&data, 6, OUTPUTS);
  static float wanted[OUTPUTS];
  for (int i = 0; i < OUTPUTS; ++i) {
    const int q = i % SIZE, p = i / SIZE % SIZE, k = i / (SIZE * SIZE) % K, n = i / (SIZE * SIZE * K);
    float sum = bias[k];
    for (int c = 0; c < C; ++c) {
      for (int r = 0; r < 9; ++r) {
        const int h = p + r / 3 - 1, v = q + r % 3 - 1;
        if (h < 0 || h >= SIZE || v < 0 || v >= SIZE) continue;
        sum += x[((n * C + c) * SIZE + h) * SIZE + v] * w[(k * C + c) * 9 + r];
      }
    }
    wanted[i] = sum > 0 ? sum : 0;
  }
  const bool good = run("convolution + bias + ReLU", &data, 0, NULL, 3, operations, OUTPUTS, wanted);
  release(&data);
  return good;
}

static bool product_gelu(gpudnnHandle_t handle) {
  enum { M = 32, N = 24, K = 40 };
  const int64_t a_dims[] = {1, M, K}, b_dims[] = {1, K, N}, y_dims[] = {1, M, N};
  Descriptor t[] = {tensor(1, 3, a_dims, GIVEN), tensor(2, 3, b_dims, GIVEN), tensor(3, 3, y_dims, VIRTUAL),
                    tensor(4, 3, y_dims, GIVEN)};
  Descriptor how = create(GPUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set_enum(how, GPUDNN_ATTR_MATMUL_COMP_TYPE, GPUDNN_TYPE_DATA_TYPE, GPUDNN_DATA_FLOAT);
  CHECK(gpudnnBackendFinalize(how));
  Descriptor product = create(GPUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_descriptor(product, GPUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  set_descriptor(product, GPUDNN_ATTR_OPERATION_MATMUL_ADESC, t[0]);
  set_descriptor(product, GPUDNN_ATTR_OPERATION_MATMUL_BDESC, t[1]);
  set_descriptor(product, GPUDNN_ATTR_OPERATION_MATMUL_CDESC, t[2]);
  CHECK(gpudnnBackendFinalize(product));
  CHECK(gpudnnBackendDestroyDescriptor(how));
  Descriptor operations[] = {product, pointwise(GPUDNN_POINTWISE_GELU_FWD, t[2], NULL, t[3])};
  destroy_all(4, t);

  Data data = {.handle = handle};
  const float* a = add(&data, 1, M * K);
  const float* b = add(&data, 2, K * N);
  add(&data, 4, M * N);
  static float wanted[M * N];
  for (int i = 0; i < M * N; ++i) {
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[i / N * K + k] * b[k * N + i % N];
    wanted[i] = 0.5f * sum * (1 + erff(sum * 0.70710678f));
  }
  const bool good = run("matrix product + GELU", &data, 0, NULL, 2, operations, M * N, wanted);
  release(&data);
  return good;
}

static bool layer_norm(gpudnnHandle_t handle) {
  enum { ROWS = 16, SIZE = 64 };
  const int64_t x_dims[] = {ROWS, SIZE, 1, 1}, of_row[] = {1, SIZE, 1, 1}, one[] = {1, 1, 1, 1};
  Descriptor t[] = {tensor(1, 4, x_dims, GIVEN), tensor(2, 4, of_row, GIVEN), tensor(3, 4, of_row, GIVEN),
                    tensor(4, 4, one, BY_VALUE), tensor(5, 4, x_dims, GIVEN)};
  Descriptor norm = create(GPUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  set_enum(norm, GPUDNN_ATTR_OPERATION_NORM_FWD_MODE, GPUDNN_TYPE_NORM_MODE, GPUDNN_LAYER_NORM);
  set_enum(norm, GPUDNN_ATTR_OPERATION_NORM_FWD_PHASE, GPUDNN_TYPE_NORM_FWD_PHASE, GPUDNN_NORM_FWD_INFERENCE);
  set_descriptor(norm, GPUDNN_ATTR_OPERATION_NORM_FWD_XDESC, t[0]);
  set_descriptor(norm, GPUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, t[1]);
  set_descriptor(norm, GPUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, t[2]);
  set_descriptor(norm, GPUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, t[3]);
  set_descriptor(norm, GPUDNN_ATTR_OPERATION_NORM_FWD_YDESC, t[4]);
  CHECK(gpudnnBackendFinalize(norm));
  destroy_all(5, t);

  float epsilon = 1e-5f;
  Data data = {.handle = handle};
  const float* x = add(&data, 1, ROWS * SIZE);
  const float* scale = add(&data, 2, SIZE);
  const float* bias = add(&data, 3, SIZE);
  add(&data, 5, ROWS * SIZE);
  static float wanted[ROWS * SIZE];
  for (int n = 0; n < ROWS; ++n) {
    float mean = 0, square = 0;
    for (int i = 0; i < SIZE; ++i) mean += x[n * SIZE + i] / SIZE;
    for (int i = 0; i < SIZE; ++i) square += (x[n * SIZE + i] - mean) * (x[n * SIZE + i] - mean) / SIZE;
    for (int i = 0; i < SIZE; ++i)
      wanted[n * SIZE + i] = (x[n * SIZE + i] - mean) / sqrtf(square + epsilon) * scale[i] + bias[i];
  }
  const bool good = run("layer normalization", &data, 4, &epsilon, 1, &norm, ROWS * SIZE, wanted);
  release(&data);
  return good;
}

int main(void) {
  gpudnnHandle_t handle;
  CHECK(gpudnnCreate(&handle));
  gpudnnBackend_t backend;
  CHECK(gpudnnGetBackend(handle, &backend));
  printf("backend: %s\n", backend == GPUDNN_BACKEND_HOST ? "host" : "CUDA");
  bool good = convolution_bias_relu(handle);
  good = product_gelu(handle) && good;
  good = layer_norm(handle) && good;
  CHECK(gpudnnDestroy(handle));
  return good ? 0 : 1;
}
