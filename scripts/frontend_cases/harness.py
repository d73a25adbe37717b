"""A case: draws inputs, builds a graph by the frontend, runs it, compares its outputs with NumPy's.

SPDX-License-Identifier: Apache-2.0
"""

import cudnn
import ml_dtypes
import numpy as np

TYPES = {
    np.dtype(np.float32): cudnn.data_type.FLOAT, np.dtype(np.float16): cudnn.data_type.HALF,
    np.dtype(np.float64): cudnn.data_type.DOUBLE, np.dtype(np.int32): cudnn.data_type.INT32,
    np.dtype(np.int64): cudnn.data_type.INT64, np.dtype(np.int8): cudnn.data_type.INT8,
    np.dtype(np.uint8): cudnn.data_type.UINT8, np.dtype(np.bool_): cudnn.data_type.BOOLEAN,
    np.dtype(ml_dtypes.bfloat16): cudnn.data_type.BFLOAT16, np.dtype(ml_dtypes.float8_e4m3fn): cudnn.data_type.FP8_E4M3,
    np.dtype(ml_dtypes.float8_e5m2): cudnn.data_type.FP8_E5M2, np.dtype(ml_dtypes.float8_e8m0fnu): cudnn.data_type.FP8_E8M0,
}
BOUNDS = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 4e-3, np.dtype(ml_dtypes.bfloat16): 3e-2,
          np.dtype(np.float64): 1e-5, np.dtype(ml_dtypes.float8_e4m3fn): 0.14, np.dtype(ml_dtypes.float8_e5m2): 0.3}
FLOAT = cudnn.data_type.FLOAT
HANDLE = cudnn.create_handle()
ATTENTION = "eng140"  # the index of docs/graph.md, in a plan's name
CASES = []


def case(function):
    CASES.append((function.__name__, function))
    return function


def cases(name, choices):
    """A case for each choice, which is the function's second argument."""
    def add(function):
        for choice in choices:
            CASES.append((f"{name} {choice}", lambda c, choice=choice: function(c, choice)))
        return function
    return add


def placed(array, order=None):
    """The array in memory by an order of its dimensions, slowest first."""
    if order is None:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


class Case:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.arrays, self.expected = {}, []
        self.graph = cudnn.pygraph(handle=HANDLE, io_data_type=FLOAT, intermediate_data_type=FLOAT,
                                   compute_data_type=FLOAT, sm_version=90)

    def draw(self, *dims, dtype=np.float32, scale=1.0):
        return (self.random.standard_normal(dims) * scale).astype(dtype)

    def input(self, array, order=None, **rest):
        array = placed(array, order)
        size = array.itemsize
        tensor = self.graph.tensor(dim=list(array.shape), stride=[s // size for s in array.strides],
                                   data_type=TYPES[array.dtype], **rest)
        self.arrays[tensor] = array
        return tensor

    def number(self, value, dtype=np.float32, rank=4):
        array = np.full([1] * rank, value, dtype)
        tensor = self.graph.tensor(dim=[1] * rank, stride=[1] * rank, data_type=TYPES[array.dtype], is_pass_by_value=True)
        self.arrays[tensor] = array
        return tensor

    def output(self, tensor, expected, dtype=np.float32, order=None, bound=None):
        array = placed(np.zeros(np.shape(expected), dtype), order)
        array.view(np.uint8 if array.flags.c_contiguous else dtype)[...] = 0xFF if array.flags.c_contiguous else np.nan
        tensor.set_output(True).set_data_type(TYPES[array.dtype]).set_dim(list(array.shape))
        tensor.set_stride([s // array.itemsize for s in array.strides])
        self.arrays[tensor] = array
        self.expected.append((array, np.asarray(expected), BOUNDS.get(array.dtype, 0) if bound is None else bound))

    def run(self):
        self.graph.validate()
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        self.graph.check_support()
        self.graph.build_plans()
        self.plan = self.graph.get_plan_name_at_index(0)
        workspace = np.empty(self.graph.get_workspace_size() + 64, np.uint8)
        at = (workspace.ctypes.data + 63) // 64 * 64
        self.graph.execute({t: a.ctypes.data for t, a in self.arrays.items()}, at, HANDLE)
        for number, (array, expected, bound) in enumerate(self.expected):
            got, want = array.astype(np.float64), expected.astype(np.float64)
            with np.errstate(invalid="ignore"):
                same = (got == want) | np.isnan(want) | (np.abs(got - want) <= bound * (1 + np.abs(want)))
            if not same.all():
                where = np.unravel_index(np.argmin(same), same.shape)
                raise AssertionError(f"output {number}, {int((~same).sum())} of {same.size} elements, first {where}: "
                                     f"{got[where]} instead of {want[where]}")
