# find_package(CUDNN CONFIG) finds libgpudnn: see FindCUDNN.cmake beside its own package.
# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/../gpudnn/FindCUDNN.cmake)
