"""Writes the table of hostile_arguments_test: one row for each function of the public headers.

usage: generate_hostile_calls.py C_COMPILER INCLUDE_DIRECTORY OUTPUT.cpp NOT_BUILT_LIST SYMBOL_LIST...

A row has a thunk that calls the function with untyped values, and for each parameter its role: what a good value is, and
what is done to spoil it. Roles follow from the parameter's type and name; the exceptions are listed below, with reasons.
The generator fails if the headers and the symbol lists name different functions.

SPDX-License-Identifier: Apache-2.0
"""

import re
import sys

from interface_parser import parse, read_names

# Parameters whose null is legal, and why.
NULL_IS_LEGAL = {
    ("gpudnnBackendGetAttribute", "elementCount"): "the caller does not want the count",
    ("gpudnnBackendGetAttribute", "arrayOfElements"): "asks for the count alone",
    ("gpudnnSetStream", "streamId"): "null is the default stream",
    ("gpudnnSetCallback", "udata"): "the library does not look at it",
    ("gpudnnSetCallback", "fptr"): "null takes the callback away",
    ("gpudnnQueryRuntimeError", "tag"): "reserved: null is the good value",
    ("gpudnnFree", "ptr"): "freeing null does nothing",
    ("gpudnnSetDropoutDescriptor", "states"): "null states are for inference",
    ("gpudnnGetCTCLossWorkspaceSize", "gradientsDesc"): "null: costs only",
    ("gpudnnGetCTCLossWorkspaceSize_v8", "gradientsDesc"): "null: costs only",
    ("gpudnnCTCLoss", "gradients"): "null: costs only",
    ("gpudnnCTCLoss_v8", "gradients"): "null: costs only",
    ("gpudnnDivisiveNormalizationForward", "means"): "null is zero",
    ("gpudnnDivisiveNormalizationBackward", "means"): "null is zero",
    ("gpudnnDivisiveNormalizationBackward", "dMeans"): "null asks for dx alone",
    ("gpudnnSetSeqDataDescriptor", "paddingFill"): "null leaves the padding as it is",
    ("gpudnnGetSeqDataDescriptor", "paddingFill"): "the caller does not want the value",
    ("gpudnnSetAttnDescriptor", "attnDropoutDesc"): "null is no dropout",
    ("gpudnnSetAttnDescriptor", "postDropoutDesc"): "null is no dropout",
    ("gpudnnGetMultiHeadAttnBuffers", "reserveSpaceSizeInBytes"): "null asks for inference",
    ("gpudnnGetMultiHeadAttnWeights", "weights"): "null asks for offsets",
    ("gpudnnMultiHeadAttnForward", "residuals"): "null is no residual",
    ("gpudnnMultiHeadAttnForward", "reserveSpace"): "inference has none",
    ("gpudnnReduceTensor", "indices"): "none were asked for",
    ("gpudnnSetTensorTransformDescriptor", "padBeforeA"): "null stands for zeros",
    ("gpudnnSetTensorTransformDescriptor", "padAfterA"): "null stands for zeros",
    ("gpudnnSetTensorTransformDescriptor", "foldA"): "null stands for ones",
    ("gpudnnSetRNNDescriptor_v8", "dropoutDesc"): "null is no dropout",
    ("gpudnnSetRNNDataDescriptor", "paddingFill"): "null leaves the padding as it is",
    ("gpudnnGetRNNDataDescriptor", "paddingFill"): "the caller does not want the value",
    ("gpudnnGetRNNTempSpaceSizes", "workSpaceSize"): "the caller wants the other size",
    ("gpudnnGetRNNTempSpaceSizes", "reserveSpaceSize"): "the caller wants the other size",
    ("gpudnnGetRNNWeightParams", "weightSpace"): "null asks for offsets",
    ("gpudnnGetRNNWeightParams", "mDesc"): "the matrix is not wanted",
    ("gpudnnGetRNNWeightParams", "mAddr"): "the matrix is not wanted",
    ("gpudnnGetRNNWeightParams", "bDesc"): "the bias is not wanted",
    ("gpudnnGetRNNWeightParams", "bAddr"): "the bias is not wanted",
    ("gpudnnRNNForward", "reserveSpace"): "inference has none",
    ("gpudnnSetFusedOpsConstParamPackAttribute", "param"): "null takes the entry back",
    ("gpudnnSetFusedOpsVariantParamPackAttribute", "ptr"): "a data pointer may be null until the execution",
}

# Normalization calls take null for what their operations (0, no addend or activation) do not use.
NORMALIZATION = re.compile(r"gpudnn(Get)?(Batch)?Normalization\w+")
UNUSED_BY_PLAIN_NORMALIZATION = {"zDesc", "zData", "z", "dzDesc", "dzData", "activationDesc", "reserveSpace", "yData",
                                 "bnBiasData", "normBiasData"}  # fmt: skip

# Recurrent networks: getters skip outputs that are null, and states and their gradients may be missing.
RNN_CLIP_GETTER = re.compile(r"gpudnnRNNGetClip_v\d")
RNN_CALL = re.compile(r"gpudnnRNN(Forward|Backward\w+)")
RNN_OPTIONAL = {"devSeqLengths", "hx", "hy", "cx", "cy", "dhx", "dhy", "dcx", "dcy"}
# Multi-head attention: lengths may come from the descriptors, and the host needs no workspace in training.
ATTENTION_CALL = re.compile(r"gpudnnMultiHeadAttn\w+")
ATTENTION_OPTIONAL = {"devSeqLengthsQO", "devSeqLengthsKV", "devSeqLengthsDQDO", "devSeqLengthsDKDV", "workSpace"}

# Good values of integers by name; arrays and sizes follow from the shapes in hostile_arguments_test.cpp.
INTEGERS = {
    "n": 2, "c": 4, "h": 8, "w": 8, "k": 4,
    "nStride": 256, "cStride": 64, "hStride": 8, "wStride": 1,
    "nbDims": 4, "nbDimsRequested": 4, "arrayLength": 2, "arrayLengthRequested": 2, "groupCount": 1,
    "windowHeight": 3, "windowWidth": 3, "verticalPadding": 1, "horizontalPadding": 1,
    "verticalStride": 1, "horizontalStride": 1,
    "pad_h": 1, "pad_w": 1, "u": 1, "v": 1, "dilation_h": 1, "dilation_w": 1,
    "seqLengthArraySize": 2, "seqLengthSizeRequested": 2, "currIdx": -1,
    "requestedAlgoCount": 8, "max_size": 64, "sizeInBytes": 64, "stateSizeInBytes": 4096,
    "weightSpaceSize": 4096,
}  # fmt: skip
INTEGERS_OF = {
    ("gpudnnBackendSetAttribute", "elementCount"): 1,
    ("gpudnnBackendGetAttribute", "requestedElementCount"): 1,
    ("gpudnnSetPoolingNdDescriptor", "nbDims"): 2,
    ("gpudnnGetPoolingNdDescriptor", "nbDimsRequested"): 2,
    ("gpudnnSetCallback", "mask"): 0,
    ("gpudnnGetRNNWeightParams", "pseudoLayer"): 0,
}
# Enums whose good value is not 0.
ENUMS = {
    "gpudnnMemcpyKind_t": 3,
    "gpudnnActivationMode_t": 1,
    "gpudnnStatus_t": 3000,
    "gpudnnBatchNormMode_t": 1,
    "gpudnnNormMode_t": 1,
}
ENUMS_OF = {
    ("gpudnnBackendSetAttribute", "attributeName"): 906,  # a tensor's unique id
    ("gpudnnBackendSetAttribute", "attributeType"): 3,
    ("gpudnnBackendGetAttribute", "attributeName"): 906,
    ("gpudnnBackendGetAttribute", "attributeType"): 3,
    ("gpudnnSetFusedOpsConstParamPackAttribute", "paramLabel"): 1,  # a placeholder
    ("gpudnnGetFusedOpsConstParamPackAttribute", "paramLabel"): 1,
}

# Host arrays that are read, and host memory that stands behind a void pointer.
ARRAYS = {
    ("gpudnnBackendSetAttribute", "arrayOfElements"): "ones",
    ("gpudnnBackendGetAttribute", "arrayOfElements"): "host_output",
    ("gpudnnSetFusedOpsConstParamPackAttribute", "param"): "zeros",  # GPUDNN_PTR_NULL
    ("gpudnnGetFusedOpsConstParamPackAttribute", "param"): "host_output",
    ("gpudnnGetFusedOpsVariantParamPackAttribute", "ptr"): "host_output",
    ("gpudnnSetSeqDataDescriptor", "dimA"): "seq_dims",
    ("gpudnnSetSeqDataDescriptor", "axes"): "seq_axes",
    ("gpudnnSetSeqDataDescriptor", "seqLengthArray"): "ones",
    ("gpudnnSetSeqDataDescriptor", "paddingFill"): "host_output",
    ("gpudnnGetSeqDataDescriptor", "paddingFill"): "host_output",
    ("gpudnnMultiHeadAttnForward", "loWinIdx"): "zeros",
    ("gpudnnMultiHeadAttnForward", "hiWinIdx"): "ones",
    ("gpudnnMultiHeadAttnBackwardData", "loWinIdx"): "zeros",
    ("gpudnnMultiHeadAttnBackwardData", "hiWinIdx"): "ones",
    ("gpudnnSetTensorNdDescriptor", "dimA"): "dims",
    ("gpudnnSetTensorNdDescriptor", "strideA"): "strides",
    ("gpudnnSetTensorNdDescriptorEx", "dimA"): "dims",
    ("gpudnnSetFilterNdDescriptor", "filterDimA"): "filter_dims",
    ("gpudnnSetPoolingNdDescriptor", "windowDimA"): "ones",
    ("gpudnnSetPoolingNdDescriptor", "paddingA"): "zeros",
    ("gpudnnSetPoolingNdDescriptor", "strideA"): "ones",
    ("gpudnnSetConvolutionNdDescriptor", "padA"): "ones",
    ("gpudnnSetConvolutionNdDescriptor", "filterStrideA"): "ones",
    ("gpudnnSetConvolutionNdDescriptor", "dilationA"): "ones",
    ("gpudnnSetSpatialTransformerNdDescriptor", "dimA"): "dims",
    ("gpudnnSetRNNDataDescriptor", "seqLengthArray"): "ones",
    ("gpudnnSetRNNDataDescriptor", "paddingFill"): "host_output",
    ("gpudnnGetRNNDataDescriptor", "paddingFill"): "host_output",
}

# Objects that the test can make; those of other types are stood in for by memory that is no object.
OBJECTS = {
    "gpudnnHandle_t": "handle",
    "gpudnnTensorDescriptor_t": "tensor",
    "gpudnnFilterDescriptor_t": "filter",
    "gpudnnConvolutionDescriptor_t": "convolution",
    "gpudnnPoolingDescriptor_t": "pooling",
    "gpudnnActivationDescriptor_t": "activation",
    "gpudnnOpTensorDescriptor_t": "op_tensor",
    "gpudnnDropoutDescriptor_t": "dropout",
    "gpudnnSpatialTransformerDescriptor_t": "spatial_transformer",
    "gpudnnCTCLossDescriptor_t": "ctc_loss",
    "gpudnnSeqDataDescriptor_t": "seq_data",
    "gpudnnAttnDescriptor_t": "attn",
    "gpudnnLRNDescriptor_t": "lrn",
    "gpudnnReduceTensorDescriptor_t": "reduce_tensor",
    "gpudnnTensorTransformDescriptor_t": "tensor_transform",
    "gpudnnFusedOpsConstParamPack_t": "fused_const_pack",
    "gpudnnFusedOpsVariantParamPack_t": "fused_variant_pack",
    "gpudnnFusedOpsPlan_t": "fused_plan",
    "gpudnnRNNDescriptor_t": "rnn",
    "gpudnnRNNDataDescriptor_t": "rnn_data",
}
BIAS_DESCRIPTORS = ("biasDesc", "dbDesc", "bnScaleBiasMeanVarDesc", "dBnScaleBiasDesc", "normScaleBiasDesc",
                    "dNormScaleBiasDesc", "normMeanVarDesc")
SCALARS = ("alpha", "beta", "alpha1", "alpha2", "valuePtr", "alphaDataDiff", "betaDataDiff", "alphaParamDiff",
           "betaParamDiff", "alphaDgrid", "betaDgrid")
SEQUENCE_DESCRIPTORS = ("probsDesc", "gradientsDesc")
STATE_DESCRIPTORS = ("hDesc", "cDesc")
INTEGER_TYPES = ("int", "unsigned", "int32_t", "uint32_t", "int64_t", "size_t", "unsigned long long", "float", "double")


# Getters of descriptors skip outputs that are null.
GETTERS = re.compile(r"gpudnnGet\w+Descriptor(Ex|SwishBeta)?(_v\d)?")


# Destroying null does nothing, as in cuDNN.
DESTROYERS = re.compile(r"gpudnnDestroy\w*")


def null_is_legal(function, parameter, kind):
    if DESTROYERS.fullmatch(function):
        return True
    if (function, parameter) in NULL_IS_LEGAL:
        return True
    if ATTENTION_CALL.fullmatch(function) and parameter in ATTENTION_OPTIONAL:
        return True
    if NORMALIZATION.fullmatch(function):
        backward = "Backward" in function
        if parameter in UNUSED_BY_PLAIN_NORMALIZATION and (backward or parameter != "yData"):
            return True
        if backward and parameter == "yDesc":
            return True
    if RNN_CALL.fullmatch(function) and parameter in RNN_OPTIONAL:
        return True
    if kind == "host_output" and RNN_CLIP_GETTER.fullmatch(function):
        return True
    return kind == "host_output" and GETTERS.fullmatch(function) is not None


def role(interface, function, parameter):
    """(role, number) of a parameter; the number is the good value of integers and enums."""
    name = parameter.name
    bare = parameter.type.removeprefix("const ").removesuffix(" const").strip()
    if bare in OBJECTS:
        if bare == "gpudnnTensorDescriptor_t" and name in BIAS_DESCRIPTORS:
            return "bias_tensor", 0
        if bare == "gpudnnTensorDescriptor_t" and name in SEQUENCE_DESCRIPTORS:
            return "sequence_tensor", 0
        if bare == "gpudnnTensorDescriptor_t" and name in STATE_DESCRIPTORS and RNN_CALL.fullmatch(function):
            return "state_tensor", 0
        return OBJECTS[bare], 0
    if bare == "gpudnnBackendDescriptor_t":
        roles = {"executionPlan": "backend_plan", "variantPack": "backend_pack"}
        return roles.get(name, "backend_finalized" if function == "gpudnnBackendGetAttribute" else "backend_tensor"), 0
    if bare in interface.opaque:
        return "unknown_object", 0
    if bare in interface.enums or bare == "libraryPropertyType":
        return "enumeration", ENUMS_OF.get((function, name), ENUMS.get(bare, 0))
    if bare in INTEGER_TYPES:
        value = INTEGERS_OF.get((function, name), INTEGERS.get(name, 1))
        if name.startswith(("weightSize", "workSpaceSize", "workspaceSize", "reserveSpaceSize")):
            return "buffer_size", 0
        return ("size" if bare == "size_t" else "real" if bare in ("float", "double") else "integer"), value
    if bare == "gpudnnCallback_t":
        return "callback", 0
    if bare in ("cudaStream_t", "cudaGraph_t", "gpudnnRuntimeTag_t *"):
        return "null", 0
    if bare == "int *" and function == "gpudnnCTCLoss_v8":
        return "data", 0
    if bare == "int *" and function in ("gpudnnCTCLoss", "gpudnnGetCTCLossWorkspaceSize"):
        return "zeros", 0
    if bare == "int *" and name.startswith("devSeqLengths") and ATTENTION_CALL.fullmatch(function):
        return "data", 0
    if (function, name) in ARRAYS:
        return ARRAYS[(function, name)], 0
    if function == "gpudnnFree":
        return "allocation", 0
    if parameter.type in ("const void *", "void *"):
        return ("scalar" if name in SCALARS else "data"), 0
    if parameter.type.endswith("*"):
        return "host_output", 0
    raise ValueError(f"{function}: what is a good value of {parameter.type} {name}?")


def row(interface, function, not_built):
    values = ", ".join(f"v[{i}]" for i in range(len(function.parameters)))
    call = f"{function.name}({values})"
    status = function.result == "gpudnnStatus_t"
    body = f"return {call};" if status else f"(void){call}; return kNoStatus;"
    if function.result == "void":
        body = f"{call}; return kNoStatus;"
    lines = [f'    {{"{function.name}", [](const Value* v) -> int {{ (void)v; {body} }}, {str(status).lower()},']
    lines.append(f"     {str(function.name not in not_built).lower()}, {{")
    for parameter in function.parameters:
        kind, number = role(interface, function.name, parameter)
        legal = str(null_is_legal(function.name, parameter.name, kind)).lower()
        lines.append(f'         {{"{parameter.name}", Role::{kind}, {number}, {legal}}},')
    lines.append("     }},")
    return "\n".join(lines)


def main():
    compiler, include, output, not_built_list, *lists = sys.argv[1:]
    interface = parse(compiler, f"{include}/gpudnn/gpudnn.h", "gpudnn", [include], ["GPUDNN_NO_CUDA_HEADERS"])
    not_built = set(read_names(not_built_list))
    listed = [name for path in lists for name in read_names(path)]
    declared = set(interface.functions)
    if declared != set(listed) or not not_built <= declared:
        differences = sorted(declared.symmetric_difference(listed)) + sorted(not_built - declared)
        sys.exit(f"headers and lists disagree on: {', '.join(differences)}")

    rows = [row(interface, interface.functions[name], not_built) for name in listed]
    with open(output, "w", encoding="utf-8") as file:
        file.write('#include "hostile_calls.hpp"\n\nconst std::vector<HostileRow>& hostile_rows() {\n')
        file.write("  static const std::vector<HostileRow> rows = {\n" + "\n".join(rows) + "\n  };\n")
        file.write("  return rows;\n}\n")


if __name__ == "__main__":
    main()
